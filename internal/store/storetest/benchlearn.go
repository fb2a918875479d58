package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/learned"
)

// LearnHosts is how many hosts run the template of BenchLearn.
const LearnHosts = 1000

// BenchLearn measures what is learned of a template that all of LearnHosts run, each of which saw
// runs of many amounts: once a minute nobody tells anything new, or one host, or as many as one transaction takes.
// "ms-held" is the longest that another transition waited for the one writer meanwhile, in the
// median round.
func BenchLearn(b *testing.B, fresh func(testing.TB) Opened) {
	o := fresh(b)
	s := o.Open(b)
	ctx, words := context.Background(), make([]learned.Word, LearnHosts)
	for i := range words {
		id := fmt.Sprint("h", i)
		life, err := s.Register(ctx, id)
		if err != nil {
			b.Fatal(err)
		}
		words[i] = word(id, life, 1, "small", "base", 0, 0)
		for j := range 200 {
			words[i].Runs.Ended(gate.FromMiB(int64(150+7*j+i%7)), 0)
			words[i].Runs.Sampled(gate.FromMiB(int64(100+j)), 60)
		}
	}
	tell := func(b *testing.B, told []learned.Word) {
		for i := range told {
			told[i].Sequence++
			told[i].Runs.Ended(gate.FromMiB(200), 0)
		}
		if err := s.Learn(ctx, lessons, told); err != nil {
			b.Error(err)
		}
	}
	for i := 0; i < LearnHosts; i += 250 {
		tell(b, words[i:i+250])
	}
	for _, hosts := range []int{0, 1, 32} {
		b.Run(fmt.Sprint(hosts, " hosts tell"), func(b *testing.B) {
			var waits []time.Duration
			for b.Loop() {
				o.Clock.Advance(learned.StepEvery)
				done := make(chan struct{})
				go func() {
					defer close(done)
					tell(b, words[:hosts])
				}()
				waits = append(waits, longestWait(b, s, done))
			}
			slices.Sort(waits)
			b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "ms-held")
			runsOf(b, s)
		})
	}
}

// longestWait asks the writer for something short, again and again, until the other is done.
func longestWait(b *testing.B, s control.Store, done <-chan struct{}) (longest time.Duration) {
	for {
		begun := time.Now()
		if _, err := s.Pulse(context.Background(), nil); err != nil {
			b.Fatal(err)
		}
		longest = max(longest, time.Since(begun))
		select {
		case <-done:
			return longest
		default:
		}
	}
}

// runsOf proves that what was measured was counted.
func runsOf(b *testing.B, s control.Store) {
	list, err := s.Learned(context.Background())
	if err != nil || len(list) != 1 || list[0].Runs < LearnHosts*201 {
		b.Fatalf("%+v %v", list, err)
	}
}
