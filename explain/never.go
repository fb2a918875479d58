package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
)

// patch is a JSON merge patch of one field; nil takes the field out.
func patch(field string, value any) string {
	text, err := json.Marshal(map[string]any{field: value})
	if err != nil {
		return "" // a text, a number or nothing is always written
	}
	return string(text)
}

// never is for what waiting does not change: what the request says, or who may say it.
func never(f *Facts) []Change {
	switch f.Code {
	case api.UnknownClass:
		return []Change{knownClass(f)}
	case api.TooLarge:
		return tooLarge(f)
	case api.InvalidRequest:
		return []Change{corrected(f)}
	case api.Forbidden:
		return forbidden(f)
	case api.Unauthenticated:
		return []Change{newToken(f)}
	case api.Internal:
		return []Change{{Kind: Server, Who: Operator, Target: "log", Why: "the server's log has the rest, by the decision id"}}
	}
	return []Change{remedy(f)}
}

// remedy is what is said of the code, where nothing more is known.
func remedy(f *Facts) Change {
	return Change{Kind: Request, Who: Caller, Target: "request", Why: f.Code.Meaning().Remedy}
}

func knownClass(f *Facts) Change {
	c := Change{Kind: Request, Who: Caller, Target: "class"}
	if len(f.Known) == 0 {
		c.Why = "the configuration has no class at all"
		return c
	}
	name := closest(f.Request.Class, f.Known)
	c.Patch, c.Why = patch("class", name), "the configuration has "+strings.Join(f.Known, ", ")
	return c
}

// closest is the word that a mistyped one is most like.
func closest(word string, known []string) string {
	return slices.MinFunc(known, func(a, b string) int { return distance(word, a) - distance(word, b) })
}

// distance counts the letters to change, add or leave out (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// field is what the refusal's detail begins with.
func field(f *Facts) string {
	name, _, _ := strings.Cut(f.Detail, ":")
	return name
}

// tooLarge is for a size outside its class.
func tooLarge(f *Facts) []Change {
	b, class := f.Bounds, f.Request.Class
	if field(f) == "cpu" && f.Request.CPU != nil {
		asked := int64(*f.Request.CPU * 1000)
		to, bound := clamp(asked, b.LeastCPU, b.MostCPU)
		return []Change{
			{Kind: Smaller, Who: Caller, Target: "cpu", Patch: patch("cpu", float64(to)/1000), Why: "class " + class + " takes " + cores(b.LeastCPU) + " to " + cores(b.MostCPU) + " cores"},
			{Kind: Limit, Who: Operator, Target: "class " + class, Command: fmt.Sprintf("plimsoll config set classes.%s.%s_cpu=%s", class, bound, cores(asked)), Why: "so that the class takes it"},
		}
	}
	if f.Request.MemoryMB == nil {
		return []Change{remedy(f)}
	}
	asked := *f.Request.MemoryMB
	to, bound := clamp(asked, b.LeastMemoryMB, b.MostMemoryMB)
	return []Change{
		{Kind: Smaller, Who: Caller, Target: "memory_mb", From: asked, To: to, Patch: patch("memory_mb", to), Why: fmt.Sprintf("class %s takes %s to %s MiB", class, grouped(b.LeastMemoryMB), grouped(b.MostMemoryMB))},
		{Kind: Limit, Who: Operator, Target: "class " + class, From: to, To: asked, Command: fmt.Sprintf("plimsoll config set classes.%s.%s_memory=%dMiB", class, bound, asked), Why: "so that the class takes it"},
	}
}

// clamp brings a size into its bounds, and says which of them it was outside of.
func clamp(n, least, most int64) (int64, string) {
	if n < least {
		return least, "min"
	}
	return most, "max"
}

func cores(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

// corrected is for a field that says what is not allowed: what may be left out is, and the
// class's word, or the consumer's, takes its place.
func corrected(f *Facts) Change {
	c := Change{Kind: Request, Who: Caller, Target: field(f), Why: firstWord(f.Detail, f.Code.Meaning().Remedy)}
	name, rest, nested := strings.Cut(c.Target, ".")
	switch {
	case name == "key" || c.Target == "field key is missing":
		c.Target, c.Patch = "key", patch("key", aKey(f.Request.Key))
	case name == "class" && len(f.Known) > 0:
		c.Patch = knownClass(f).Patch
	case name == "tenant" && f.Request.Tenant == "" && len(f.Tenants) > 0:
		c.Patch = patch("tenant", f.Tenants[0])
	case name == "labels" && nested:
		c.Patch = patch("labels", map[string]any{rest: nil})
	case slices.Contains([]string{"tenant", "mode", "max_queue_age_ms", "memory_mb", "cpu", "template", "labels", "host", "receipt"}, name):
		c.Patch = patch(name, nil)
	default:
		c.Target = "body"
	}
	return c
}

// aKey is a key that is allowed, as like the one that was sent as can be.
func aKey(sent string) string {
	key := strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-", r)) {
			return r
		}
		return '-'
	}, sent)
	if key == "" {
		return "k-1"
	}
	return key[:min(len(key), 128)]
}

// forbidden is for a right that the caller has not.
func forbidden(f *Facts) []Change {
	who := "consumer " + f.Consumer
	switch field(f) {
	case "host":
		return []Change{
			{Kind: Elsewhere, Who: Caller, Target: "host", Patch: patch("host", nil), Why: "without a host of its own choice it may ask"},
			permission(who, "consumers."+f.Consumer+".pin_hosts=true", "so that it may name hosts"),
		}
	case "tenant":
		own := Change{Kind: Request, Who: Caller, Target: "tenant", Patch: patch("tenant", nil), Why: who + " asks for the tenant of its own"}
		if len(f.Tenants) > 0 {
			own.Patch, own.Why = patch("tenant", f.Tenants[0]), who+" may ask for "+strings.Join(f.Tenants, ", ")
		}
		wider := append(slices.Clone(f.Tenants), f.Request.Tenant)
		if len(f.Tenants) == 0 { // its own, which a list takes the place of
			wider = []string{f.Consumer, f.Request.Tenant}
		}
		return []Change{own, permission(who, "consumers."+f.Consumer+".tenants="+strings.Join(wider, ","), "so that it may ask for "+f.Request.Tenant)}
	}
	role := f.Detail[strings.LastIndexByte(f.Detail, ' ')+1:]
	return []Change{permission(who, "consumers."+f.Consumer+".roles="+strings.Join(append(slices.Clone(f.Roles), role), ","), "so that it has the role "+role)}
}

func permission(who, set, why string) Change {
	return Change{Kind: Permission, Who: Operator, Target: who, Command: "plimsoll config set " + set, Why: why}
}

func newToken(f *Facts) Change {
	name := "NAME"
	if len(f.Known) > 0 {
		name = f.Known[0]
	}
	return Change{Kind: Permission, Who: Operator, Target: "token", Command: "plimsoll token create --consumer " + name, Why: "the token that was sent, if any, is nobody's; the new one is the consumer's that the command names"}
}
