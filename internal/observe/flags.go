package observe

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// sizeFlag is a size as in 2GiB.
type sizeFlag struct{ into *gate.Bytes }

func (f sizeFlag) String() string {
	if f.into == nil || *f.into == 0 {
		return ""
	}
	return f.into.String()
}

func (f sizeFlag) Type() string { return "size" }

func (f sizeFlag) Set(text string) error {
	size, ok := parseSize(text)
	if !ok {
		return errors.New("write a size, as in 512MiB or 2GiB")
	}
	*f.into = size
	return nil
}

// AddFlags adds the flags that say what a sandbox is.
func AddFlags(c *cobra.Command, o *config.Observe) {
	flags := c.Flags()
	flags.StringVar(&o.CgroupParent, "cgroup-parent", "", "each `cgroup` below this one is a sandbox")
	flags.StringVar(&o.Match, "match", "", "each process tree is one whose executable or command line matches this `pattern`")
	flags.StringVar(&o.SizePattern, "size-pattern", "", "the group of this `pattern` is the configured size on a command line (default: qemu's -m)")
	flags.StringVar(&o.Stateful, "stateful-match", "", "those keep state whose name or command line matches this `pattern`")
	flags.Var(sizeFlag{&o.DefaultSize}, "default-size", "configured size where nothing says it, as in 2GiB")
}

// Overlay lays the flags that were given over settings.
func Overlay(o *config.Observe, given config.Observe, c *cobra.Command) {
	for name, set := range map[string]func(){
		"cgroup-parent":  func() { o.CgroupParent = given.CgroupParent },
		"match":          func() { o.Match = given.Match },
		"size-pattern":   func() { o.SizePattern = given.SizePattern },
		"stateful-match": func() { o.Stateful = given.Stateful },
		"default-size":   func() { o.DefaultSize = given.DefaultSize },
	} {
		if c.Flags().Changed(name) {
			set()
		}
	}
}
