package herd

import "time"

// turns are those of processes that share too few processors: each gets its turn now and then,
// and takes what has come since in one go. So a replica knows of one host what it did a moment
// ago, and of another what it did long before.
type turns struct {
	every time.Duration // about
	next  map[int]time.Duration
}

// Processes are named by numbers: replicas from 0 up, hosts from -1 down.
func processOf(host int) int { return -1 - host }

// hand has a process do something with what reaches it after a delay.
func (f *fleet) hand(process int, delay time.Duration, do func()) {
	then := f.now + delay
	if t := f.turns; t != nil {
		for t.next[process] < then {
			t.next[process] += t.every/5 + time.Duration(f.rand.Int64N(int64(t.every*8/5)))
		}
		then = t.next[process]
	}
	f.at(then, do)
}
