package sim

import (
	"fmt"
	"strings"
	"testing"
)

// The scenarios cut a passage at its arrows; here it is cut after each of its events, so
// that no moment lies between two arrows: a replica or a host dies, or the store answers
// nobody for a while. Whatever was under way, the key's next call gets one yes, one sandbox
// boots, and in the end every gauge is zero.

const (
	cutFleet = "host h1 8GiB\nhost h2 8GiB\nreplica r1 r2\npool p cap 4\nclass agent 4GiB\nafter 11s\n"
	cutIn    = "create k1 agent at r1"
	cutBoot  = "create k1 agent at r1\nafter 1s\nboot k1"
	cutOut   = "create k1 agent at r1\nafter 1s\nrelease k1 at r1"
	cutStop  = "create k1 agent at r1\nafter 1s\nboot k1\nafter 2s\nrelease k1 at r1"
	cutEnd   = "create k1 agent at r1\nafter 1s\nboot k1\nafter 2s\nend k1"
	cutKeep  = "create k1 agent at r1\nafter 1s\nheartbeat k1 at r1"
	cutAfter = "after 1m40s\ncreate k1 agent at r2\nafter 3s\nexpect k1 admitted\nboot k1\nafter 3s\nexpect k1 is running\n" +
		"expect pool p busy 1\nend k1\nafter 2m\nexpect idle\n"
	// What booted, runs on: the next call is told so, under the epoch it has.
	cutBooted = "after 1m40s\ncreate k1 agent at r2\nafter 3s\nexpect k1 admitted\nexpect pool p busy 1\nrelease k1 at r2\nafter 2m\nexpect idle\n"
)

func TestScenarioCutAfterEachEvent(t *testing.T) {
	faults := map[string]string{
		"replica dies": "kill r1", "replica stands still": "pause r1 20s", "hosts die": "kill h1 for 5s\nkill h2 for 5s",
		"hosts stand still": "pause h1 20s\npause h2 20s", "store is away": "store down", "links are cut": "partition h1\npartition h2",
		"hosts lose their files": "wipe h1\nwipe h2\nafter 1s\nrestart h1\nrestart h2",
		"hosts forget what runs": "forget h1\nforget h2\nafter 1s\nrestart h1\nrestart h2",
	}
	ends := map[string]string{"store is away": "after 5s\nstore up\n", "links are cut": "after 20s\nheal\n"}
	for name, fault := range faults {
		for way, after := range map[string]string{cutIn: cutAfter, cutBoot: cutBooted, cutOut: cutAfter, cutStop: cutAfter, cutEnd: cutAfter, cutKeep: cutAfter} {
			t.Run(name+"/"+way[strings.LastIndex(way, "\n")+1:], func(t *testing.T) { cutEachEvent(t, way, fault, ends[name]+after) })
		}
	}
}

// mostEvents is more than any of the passages has until it rests.
const mostEvents = 25

func cutEachEvent(t *testing.T, way, fault, after string) {
	lines := strings.Count(cutFleet+way, "\n") + 1
	all, err := ParseScenarios("cut", cutFleet+way+"\n"+fault+"\n"+after)
	if err != nil {
		t.Fatal(err)
	}
	for n := range mostEvents {
		sc := all[0]
		sc.steps = append([]step{}, sc.steps[:lines]...)
		sc.steps = append(sc.steps, step{0, fmt.Sprintf("after %d events", n), func(s *stage) error { return s.events(n) }})
		sc.steps = append(sc.steps, all[0].steps[lines:]...)
		if err := sc.Play(uint64(n)); err != nil {
			t.Fatalf("%d events: %v", n, err)
		}
	}
}

// events lets so many things happen.
func (s *stage) events(n int) error {
	for range n {
		s.step(forever)
		s.watch()
		if err := s.violated(); err != nil {
			return err
		}
	}
	return nil
}
