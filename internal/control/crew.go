package control

import "time"

// crew does what many small things at once have to do, on goroutines that stay for a moment:
// a new one for each ask of a batch would grow its stack each time. The zero value is not
// ready: use newCrew. It may be used from any goroutine.
type crew struct{ jobs chan func() }

func newCrew() crew { return crew{jobs: make(chan func())} }

// idleFor is how long one waits for something to do.
const idleFor = time.Second

// do runs a job, on somebody idle if there is one. It does not wait.
func (c crew) do(job func()) {
	select {
	case c.jobs <- job:
	default:
		go c.work(job)
	}
}

func (c crew) work(job func()) {
	idle := time.NewTimer(idleFor)
	defer idle.Stop()
	for {
		job()
		idle.Reset(idleFor)
		select {
		case job = <-c.jobs:
		case <-idle.C:
			return
		}
	}
}
