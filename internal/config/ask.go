package config

import (
	"maps"
	"math"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Ask is what a request of this class wants, with the class's word where it says nothing.
// The contents lack only the tenant and the pinned host. An error is an *api.Refusal.
func (c *Class) Ask(memoryMB *int64, cpu *float64, template string, labels map[string]string) (gate.Ask, pool.Contents, error) {
	contents := pool.Contents{
		Class: c.Name, Template: c.Template,
		Stateful: c.Stateful, HoldOnExit: c.HoldOnExit, Priority: int64(c.Priority),
	}
	var err error
	if contents.MemoryMB, err = c.memoryMB(memoryMB); err != nil {
		return gate.Ask{}, pool.Contents{}, err
	}
	if contents.CPUMilli, err = c.cpuMilli(cpu); err != nil {
		return gate.Ask{}, pool.Contents{}, err
	}
	if template != "" {
		contents.Template = template
	}
	if !templatePattern.MatchString(contents.Template) {
		return gate.Ask{}, pool.Contents{}, api.Refuse(api.InvalidRequest, "template: %q is not allowed; write 1 to 64 of A-Z a-z 0-9 . _ -", short(contents.Template))
	}
	if err := c.checkAsked(labels); err != nil {
		return gate.Ask{}, pool.Contents{}, err
	}
	contents.Labels = Canonical(labels)
	return c.AskOf(contents), contents, nil
}

// AskOf is the ask of contents that were taken before, as a row of the store keeps them.
// They are not checked again: what was queued stays valid when bounds are narrowed.
func (c *Class) AskOf(contents pool.Contents) gate.Ask {
	return gate.Ask{
		Class: c.Name, Template: contents.Template,
		Memory: gate.FromMiB(contents.MemoryMB), CPUMilli: contents.CPUMilli,
		Priority: c.Priority, Stateful: c.Stateful, HoldOnExit: contents.HoldOnExit,
		Rule: c.Rule(),
		Dims: dimsOf(c.Dimensions), Labels: c.labelsWith(contents.Labels),
	}
}

// Rule is what its sandboxes are reserved by until something is learned of them.
func (c *Class) Rule() gate.ReserveRule {
	return gate.ReserveRule{
		Permille: int64(c.ReserveFraction), Floor: c.ReserveFloor,
		Until: c.ReserveUntil, SettleAfter: c.SettleAfter,
	}
}

// labelsWith are those that a request asks for, and the class's.
func (c *Class) labelsWith(canonical string) []gate.Label {
	if canonical == "" && len(c.Labels) == 0 {
		return nil // as most: this is asked for each admission, more than once
	}
	labels := asked(canonical)
	maps.Copy(labels, c.Labels)
	return labelsOf(labels)
}

func (c *Class) memoryMB(asked *int64) (int64, error) {
	if asked == nil {
		return c.Memory.CeilMiB(), nil
	}
	least, most := c.MinMemory.CeilMiB(), c.MaxMemory.FloorMiB()
	switch {
	case c.MaxMemory == 0:
		return 0, api.Refuse(api.InvalidRequest, "memory_mb: class %s is not sized by memory; leave it out", c.Name)
	case *asked <= 0:
		return 0, api.Refuse(api.InvalidRequest, "memory_mb: %d is no size; ask for %d to %d", *asked, least, most)
	case *asked < least || *asked > most:
		return 0, api.Refuse(api.TooLarge, "memory_mb: %d is outside class %s; ask for %d to %d", *asked, c.Name, least, most)
	}
	return *asked, nil
}

func (c *Class) cpuMilli(asked *float64) (int64, error) {
	if asked == nil {
		return int64(c.CPU), nil
	}
	least, most := cores(c.MinCPU), cores(c.MaxCPU)
	if math.IsNaN(*asked) || math.IsInf(*asked, 0) || *asked < 0 {
		return 0, api.Refuse(api.InvalidRequest, "cpu: %v is no number of cores; ask for %s to %s", *asked, least, most)
	}
	milli := roundUp(*asked)
	if milli < int64(c.MinCPU) || milli > int64(c.MaxCPU) {
		return 0, api.Refuse(api.TooLarge, "cpu: %v is outside class %s; ask for %s to %s", *asked, c.Name, least, most)
	}
	return milli, nil
}

// roundUp turns cores into thousandths. What a float64 adds to a decimal number such as
// 0.29 (290.00000000000006) is not rounded up to a thousandth that nobody asked for.
func roundUp(cores float64) int64 {
	const slack = 1e-6
	return int64(math.Ceil(min(cores*1000, maxCount+1) - slack))
}

// checkAsked checks the labels of a request. One that contradicts the class's could be
// met by no host at all.
func (c *Class) checkAsked(labels map[string]string) error {
	if len(labels) > maxLabels {
		return api.Refuse(api.InvalidRequest, "labels: %d of them; send at most %d", len(labels), maxLabels)
	}
	for _, name := range sortedKeys(labels) {
		if text := labelFault(name, labels[name]); text != "" {
			return api.Refuse(api.InvalidRequest, "labels.%s: %s", short(name), text)
		}
		if own, fixed := c.Labels[name]; fixed && own != labels[name] {
			return api.Refuse(api.InvalidRequest, "labels.%s: class %s demands %q; ask for that or leave it out", name, c.Name, own)
		}
	}
	return nil
}

// Canonical writes labels as a row keeps them: name=value, sorted, joined by commas.
// Neither commas nor, in names, equals signs are allowed, so asked reads them back.
func Canonical(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range sortedKeys(labels) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ",")
}

func asked(canonical string) map[string]string {
	labels := map[string]string{}
	for part := range strings.SplitSeq(canonical, ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			labels[name] = value
		}
	}
	return labels
}
