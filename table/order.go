package table

// Order takes an operator's word over, which stands above whatever the host itself says until
// it is taken back with Open: a host that was not told yet, or that a replica did not hear
// obey, gets nothing new either. It answers whether such a host is registered.
func (t *Table) Order(id string, ordered Intake) bool {
	i, known := t.byID[id]
	if !known {
		return false
	}
	l := &t.rests[i]
	if l.ordered == ordered {
		return true
	}
	l.ordered = ordered
	switch t.hosts[i].standing {
	case Unheard, Silent, Invalid:
		return true // it is no candidate either way; the next word finds the order
	}
	t.unindex(i)
	t.stand(i, standingOf(l.strictest(), nil))
	t.reindex(i)
	return true
}

// strictest is the host's own word or the operator's, whichever lets less in.
func (l *rest) strictest() Intake { return max(l.intake, l.ordered) }

// Mute takes a host for silent at once, without waiting for its word to age: it cannot be asked
// now. Its next word makes it heard again.
func (t *Table) Mute(id string) {
	i, known := t.byID[id]
	if !known || !t.rests[i].heard || t.hosts[i].standing == Silent {
		return
	}
	t.unlink(i)
	t.unindex(i)
	t.stand(i, Silent)
	t.rests[i].muted = true
}
