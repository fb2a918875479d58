package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
)

// checkReclaim refuses a setting that would say more than its host does, and hooks that could
// not be called.
func (r *report) checkReclaim(h *Host) {
	paths := []string{"host.reclaim", "host.enforcement"}
	switch {
	case h.Reclaim == nil:
	case h.Enforcement == host.Observe && *h.Reclaim != host.ReclaimOff:
		r.relation(paths, "is %s on a host that only observes, and ends nothing; write off, or leave it out", *h.Reclaim)
	case h.Enforcement == host.Shadow && *h.Reclaim == host.ReclaimOn:
		r.relation(paths, "is on for a host in shadow, which ends nothing; write dry-run to be told who would go")
	}
	for _, hook := range []struct {
		path string
		Hook
	}{
		{"host.hooks.hibernate", h.Hooks.Hibernate},
		{"host.hooks.stop", h.Hooks.Stop},
		{"host.hooks.intake_shut", h.Hooks.IntakeShut},
		{"host.hooks.intake_opened", h.Hooks.IntakeOpened},
	} {
		r.checkHook(hook.path, &hook.Hook)
	}
}

func (r *report) checkHook(path string, h *Hook) {
	within := join(path, "within")
	r.between(within, h.Within, 10*time.Millisecond, time.Minute)
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch {
	case len(h.Exec) == 0 && h.Webhook == "" && (r.stated(path, false) || r.stated(within, false)):
		r.relation([]string{path, within}, "would do nothing; write exec: [/usr/local/bin/%s], webhook: http://127.0.0.1:9000/%s or both, or leave it out", name, name)
	case len(h.Exec) > 0 && !isAbsolute(h.Exec[0]):
		r.relation([]string{join(path, "exec")}, "%q is no program by its absolute path; write one, as in /usr/local/bin/hibernate: no shell and no PATH look for it", short(h.Exec[0]))
	case strings.ContainsRune(strings.Join(h.Exec, ""), 0):
		r.relation([]string{join(path, "exec")}, "holds a NUL byte, which no argument can; remove it")
	}
	if h.Webhook == "" {
		return
	}
	u, err := url.Parse(h.Webhook)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		r.relation([]string{join(path, "webhook")}, "%q is no address that can be told; write one, as in http://127.0.0.1:9000/hook", short(h.Webhook))
	}
}
