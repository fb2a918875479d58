package demo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/cli"
)

// grouped writes a number with a comma at each thousand.
func grouped(n int64) string {
	digits, sign := strconv.FormatInt(n, 10), ""
	if n < 0 {
		digits, sign = digits[1:], "-"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func mib(mb int64) string { return grouped(mb) + " MiB" }

// table is the summary: a name, and a figure for each host.
type table [][3]string

func (t *table) add(name, left, right string) { *t = append(*t, [3]string{name, left, right}) }

// partsOf is a host's memory under the limit that binds.
func partsOf(h *api.Host) (amounts [parts]int64) {
	amounts[covered], amounts[reserved], amounts[headroom] = h.UnresidentMB, h.ReservedMB, h.HeadroomMB
	amounts[left] = max(h.FreeMB-h.HeadroomMB-h.UnresidentMB-h.ReservedMB, 0)
	for _, l := range h.Limits {
		if l.Name == h.BindingLimit {
			amounts[used] = l.UsedMB
		}
	}
	return amounts
}

// introduce says what is shown, and the configuration that all figures follow from.
func (s *screen) introduce(p plan) {
	fmt.Fprintf(s.out, "plimsoll %s: the main job on real processes\n\n", p.version)
	if p.asked > 0 {
		for _, line := range cli.Wrap(fmt.Sprintf("There is too little memory for a budget of %s (limit: %s), so it is %s here, and fewer sandboxes fit.", p.asked, p.binding, p.budget), width-2) {
			fmt.Fprintln(s.out, "  "+line)
		}
		fmt.Fprintln(s.out)
	}
	both := modes()[0].String() + " | " + modes()[1].String() // all that differs between the two
	for line := range strings.Lines(p.shown(both, p.run+"/ID")) {
		fmt.Fprint(s.out, "    "+line)
	}
	fmt.Fprintln(s.out)
}

// conclude shows the summary.
func (s *screen) conclude(t table, took time.Duration) {
	for i, r := range t {
		fmt.Fprintln(s.out, "  "+rowOf(r[0], r[1], r[2]))
		if i == 0 {
			fmt.Fprintln(s.out, "  "+strings.Repeat(s.style.rule, label+2*figure))
		}
	}
	fmt.Fprintf(s.out, "\n%s All of it is as it should be, in %s.\n", s.style.good(), seconds(took))
}
