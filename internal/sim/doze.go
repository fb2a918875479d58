package sim

import "time"

// doze is a process that stands still for a while: what it is told meanwhile it does
// afterwards, in order.
type doze struct {
	until time.Duration
	held  []func()
}

func (d *doze) on(now time.Duration) bool { return d.until > now }

// unless does something now, or when the process goes on.
func (d *doze) unless(now time.Duration, do func()) {
	if d.on(now) {
		d.held = append(d.held, do)
		return
	}
	do()
}

// end forgets what was to be done: the process has died.
func (d *doze) end() { d.until, d.held = 0, nil }

// pause lets a process stand still, for as long as it is told to at most.
func (f *Fleet) pause(d *doze, lasts time.Duration) {
	d.until = max(d.until, f.now+lasts)
	f.after(lasts, func() { f.goOn(d) })
}

// goOn lets it do what was held back, unless it was paused anew.
func (f *Fleet) goOn(d *doze) {
	held := d.held
	if d.on(f.now) || len(held) == 0 {
		return
	}
	d.held = nil
	for _, do := range held {
		d.unless(f.now, do)
	}
}
