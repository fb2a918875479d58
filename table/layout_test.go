package table

import (
	"reflect"
	"testing"
)

// The time of a pick is that of reading hosts: what it reads of one are two lines of the
// processor's cache, the first alone where a host has no dimensions.
func TestAHostIsTwoLines(t *testing.T) {
	const line = 64
	whole := reflect.TypeFor[host]()
	dims, _ := whole.FieldByName("few")
	if whole.Size() != 2*line || dims.Offset != line {
		t.Errorf("a host takes %d bytes, its dimensions lie at %d", whole.Size(), dims.Offset)
	}
}

func TestAHostWithoutANameIsNone(t *testing.T) {
	tb := New(Options{})
	tb.Register(Registration{})
	if _, err := tb.Observe(&Verdict{}, 0); err == nil || tb.Len() != 0 {
		t.Errorf("%d hosts, %v", tb.Len(), err)
	}
}
