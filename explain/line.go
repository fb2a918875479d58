package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/table"
)

// line says whose no it is, of which kind, and with the numbers of the refusal itself.
func line(f *Facts) string {
	m := f.Code.Meaning()
	because := f.Detail
	if because == "" {
		because = m.Title
	}
	return fmt.Sprintf("%s says %s (%s): %s", whose(f), word(m.Kind), f.Code, because)
}

func word(k api.Kind) string {
	switch k {
	case api.NotNow:
		return "not now"
	case api.NotAllowed:
		return "not allowed"
	}
	return "never"
}

// whose names who said no.
func whose(f *Facts) string {
	scope := f.Scope
	if scope == "" {
		scope = f.Code.Meaning().Scope
	}
	switch scope {
	case api.ScopeHost:
		if id := firstWord(f.Host, f.pinned()); id != "" {
			return "host " + id
		}
		return "a host"
	case api.ScopePool:
		if f.Pool.Name != "" {
			return "pool " + f.Pool.Name
		}
		return "the pool"
	case api.ScopeTenant:
		return "the quota of tenant " + f.Tenant
	case api.ScopeFleet:
		return "the fleet"
	}
	return "the request itself"
}

func firstWord(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// nearest names the host that lacks the least, and what.
func nearest(f *Facts) string {
	best, lacks := -1, int64(0)
	for i := range f.Near {
		n := missing(f, &f.Near[i])
		if f.Near[i].Why != table.Cordoned && n > 0 && (best < 0 || n < lacks) {
			best, lacks = i, n
		}
	}
	if best < 0 {
		return ""
	}
	return miss(f, &f.Near[best])
}

// missing is by how much a host is short of the ask: MiB, and of a dimension its share of
// what is needed as if it were memory, so that the two can be compared. 0: it lacks nothing that
// can be counted, or what it lacks cannot be had by a smaller ask.
func missing(f *Facts, r *table.Room) int64 {
	total := (r.Need - offers(f, r)).Positive().CeilMiB()
	for _, d := range r.Dims {
		if d.Have < d.Need {
			total += max(int64(r.Need.Scale(d.Need-d.Have, d.Need).CeilMiB()), 1)
		}
	}
	return total
}

// offers is what a host has for an ask: now, or were it empty where none could ever hold it.
func offers(f *Facts, r *table.Room) gate.Bytes {
	if f.Code == api.Infeasible {
		return r.MaxAsk
	}
	return r.Admittable
}

func miss(f *Facts, r *table.Room) string {
	var parts []string
	if lack := (r.Need - offers(f, r)).Positive().CeilMiB(); lack > 0 {
		parts = append(parts, fmt.Sprintf("%s MiB of %s", grouped(lack), grouped(r.Need.CeilMiB())))
	}
	for _, d := range r.Dims {
		if d.Have < d.Need {
			parts = append(parts, fmt.Sprintf("%s %s of %s", grouped(d.Need-d.Have), d.Name, grouped(d.Need)))
		}
	}
	text := r.Host + " lacks " + strings.Join(parts, " and ")
	if f.Code == api.Infeasible {
		text += ", even when it is empty"
	}
	return text
}

// grouped writes a number with commas, as people read it.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
