package control

import (
	"fmt"
	"testing"
	"time"
)

// Of many who were told something the oldest are forgotten, and the newest never; the first that one
// was told stays, and is taken once.
func TestToldHintsAreBounded(t *testing.T) {
	h := toldHints{most: 10}
	for i := range 1000 {
		h.note(fmt.Sprint(i), toldHint{in: time.Duration(i)})
		h.note(fmt.Sprint(i), toldHint{in: -1})
		if n := len(h.fresh) + len(h.older); n > 20 {
			t.Fatalf("%d are remembered", n)
		}
	}
	if _, ok := h.take("0"); ok {
		t.Error("the oldest is still there")
	}
	for i := 990; i < 1000; i++ {
		if got, ok := h.take(fmt.Sprint(i)); !ok || got.in != time.Duration(i) {
			t.Errorf("%d: %v %v", i, got, ok)
		}
		if _, again := h.take(fmt.Sprint(i)); again {
			t.Errorf("%d is taken twice", i)
		}
	}
}
