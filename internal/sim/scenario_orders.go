package sim

import (
	"github.com/plimsoll-project/plimsoll/host"
)

// orders are the faults that a scenario has arranged for one certain moment. In a history
// that is drawn from a seed there are none.
type orders struct {
	frame  func(l link, what frame, answer bool) (lost bool)
	write  func(what write) (fails, persists bool)
	effect func(r *replica, id string, do string) // what a passage of id is about to do
	begun  func(r *replica, id string, do string) // what it has just set going
}

// frame is a kind of frame; its answer has the same one.
type frame string

const (
	frameReserve  frame = "reserve"
	frameRenew    frame = "renew"
	frameRelease  frame = "release"
	frameAck      frame = "ack"
	frameStand    frame = "stand"
	frameQuestion frame = "question"
	frameNews     frame = "news"
)

func frameOf(ev host.Event) frame {
	switch ev.(type) {
	case host.Reserve:
		return frameReserve
	case host.Renew:
		return frameRenew
	case host.Release:
		return frameRelease
	case host.Acked:
		return frameAck
	case host.Stand:
		return frameStand
	}
	return frameQuestion
}

func (o *orders) loses(l link, what frame, answer bool) bool {
	return o.frame != nil && o.frame(l, what, answer)
}

// write is a kind of transition of the store.
type write string

const (
	writeTrack write = "track"
	writeSweep write = "sweep"
	writeRows  write = "rows"
	writeEnd   write = "end"
	writeLeave write = "leave"

	writePulse    write = "pulse"
	writeReopen   write = "reopen"
	writeReturn   write = "return"
	writeRedeem   write = "redeem"
	writeSeen     write = "seen"
	writeOverride write = "override"
)

// fails says whether a transition's outcome is unknown by order, and whether it is persisted.
func (o *orders) fails(what write) (fails, persists bool) {
	if o.write == nil {
		return false, true
	}
	return o.write(what)
}

// about is called when a passage is about to do something; false: its replica has just died.
func (o *orders) about(r *replica, id, do string) bool {
	if o.effect == nil {
		return true
	}
	life := r.life
	o.effect(r, id, do)
	return r.up && r.life == life
}

func (o *orders) began(r *replica, id, do string) {
	if o.begun != nil {
		o.begun(r, id, do)
	}
}
