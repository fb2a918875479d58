package pictures

import (
	"slices"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Until a class is broken, what is played is what the host reserved when it was measured.
func TestLearningIsPlayedAsItWasMeasured(t *testing.T) {
	rows, err := read("learning.csv")
	if err != nil {
		t.Fatal(err)
	}
	was := rows.numbers("reserve_mb")
	reserve, broke := taught(rows.numbers("peak_mb"), gate.FromMiB(int64(was[0])))
	doubled := slices.Index(rows.words["doubled"], "1")
	if broke < doubled || broke > doubled+60 {
		t.Fatalf("doubled at run %d, broken at %d", doubled+1, broke+1)
	}
	if !slices.Equal(reserve[:broke+1], was[:broke+1]) {
		t.Errorf("played %v, measured %v", reserve[:broke+1], was[:broke+1])
	}
}
