package sim

import "time"

// network is what lies between replicas and agents, and what is wrong with it now.
type network struct {
	lost, doubled, late int           // percent
	cut                 map[link]bool // pairs that hear nothing of each other
	deaf                map[link]bool // answers and news of the host do not reach the replica
	frozen              map[int]bool  // hosts whose unasked words are lost
}

// link is one replica and one host, by index.
type link struct{ replica, host int }

func newNetwork() network {
	return network{lost: 1, doubled: 1, cut: map[link]bool{}, deaf: map[link]bool{}, frozen: map[int]bool{}}
}

// toHost delivers a frame from a replica; toReplica one from a host. A frame may come late,
// twice, in another order, or never.
func (f *Fleet) toHost(l link, what frame, deliver func()) {
	if !f.net.cut[l] && !f.orders.loses(l, what, false) {
		f.carry(deliver)
	}
}

func (f *Fleet) toReplica(l link, what frame, deliver func()) {
	if !f.net.cut[l] && !f.net.deaf[l] && !f.orders.loses(l, what, true) {
		f.carry(deliver)
	}
}

func (f *Fleet) carry(deliver func()) {
	if f.chance(f.net.lost) {
		return
	}
	copies := 1
	if f.chance(f.net.doubled) {
		copies = 2
	}
	for range copies {
		delay := f.between(50*time.Microsecond, 3*time.Millisecond)
		if f.chance(f.net.late) {
			delay = f.between(time.Second, 30*time.Second)
		}
		f.after(delay, deliver)
	}
}
