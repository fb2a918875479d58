package sim

import (
	"fmt"
	"strconv"
	"strings"
)

// A scenario is a text that tells one situation and proves how it ends. It builds a fleet
// of its own, in which nothing goes wrong unless it says so; the invariants are checked
// after every event, as for seeds. One command a line; # tells the story.
//
// A line "== name" begins a section: it starts anew from what stands above the first
// section, which all of them share.
//
// Sizes are written 64MiB or 32GiB; times 200ms, 2s or 10m; keys k1, k1..k20 for twenty, or
// k* for all that begin so and were told yes (and run, where sandboxes are meant).
//
// "seeds N" says under how many draws of delays a file is played; 10, unless it takes long.
//
// Building the fleet:
//
//	pool P cap N [waiting N]                     slots, and places in the line; `cap none`
//	pool P cap N for S [slots T] [tickets T]     without hosts: the substrate S boots; slots live 10m, tickets too
//	share P CONSUMER [reserved N] [max N]        of its slots; `share P priority N …` of the classes of one priority
//	ceiling N                                    the caps sum to at most that, or the scenario is wrong
//	quota N | quota TENANT N                     of every tenant, or of one; without it there is none
//	class C SIZE [floor SIZE] [fraction N%] [stateful] [hold-on-exit] [priority N] [in P]   reserve: 25 %, floor 512MiB
//	host H SIZE [committed] [headroom SIZE] [starts N]   a machine with its agent
//	replica R...                                 r1, r2, … in order
//
// Time:
//
//	at T                 the world goes on until T after its beginning
//	after T              the world goes on for T
//
// Callers. Each asks at the replica it names, else at the first, and remembers its class and tenant:
//
//	create KEY [CLASS] [at R...] [tenant T] [as CONSUMER] [queue [for T]]   POST; several keys take replicas in turn
//	attempt KEY [at R] [wait T]    long poll, asked again every 500ms
//	hang up KEY                    the long poll's connection is gone
//	heartbeat KEY [at R]           keeps an unbooted admission, or a slot without a host
//	keep KEY [at R] every T        heartbeats, until its caller dies
//	die KEY                        its caller sends nothing any more, and holds no long poll
//	stream PREFIX N CLASS [as CONSUMER] [tenant T] every T lasts T    one caller after the other: ask once, boot, give back
//	crowd PREFIX N CLASS [as CONSUMER] [tenant T] [queue] for T lasts T   all at once, and again and again for so long
//	release KEY [at R]             DELETE
//	app KEY CLASS [at R] [patience T]   an app that is woken: the SDK's backoff, then a boot
//	boot KEY [using SIZE] [and fail]    redeem the newest ticket, now at a size or, at first, 10MiB
//	boot KEY with ticket N              redeem the N-th ticket that the key ever got
//	boot KEY as INSTANCE                a substrate's name for what it boots
//	list S                              the substrate says what it runs
//	grow KEY SIZE                  the sandbox holds that much now
//	end KEY                        the sandbox exits by itself
//
// What goes wrong (X is a host's agent or a replica):
//
//	kill X [for T]                 its processes go on; without a time until `restart X`
//	kill R before|during DO of KEY   when the key's passage is about to DO, or has just set it going:
//	                               claim, pick, reserve, settle, reply, keep, move, no-room, leave, release, end, …
//	restart X
//	wipe H                         the agent dies, its state file with it, and its sandboxes
//	forget H                       the agent dies, and its state file with it; its sandboxes run on
//	pause X T                      it stands still; what it is told waits
//	partition H | partition R H    nothing passes, either way
//	deaf R H                       the replica does not hear the host, which hears it
//	freeze H                       its heartbeats and news are lost, answers flow
//	heal                           every partition, deaf link and freeze ends
//	lose next FRAME to H           reserve, renew, release, ack, stand, question, news
//	lose next answer to FRAME of H
//	store fails next WRITE [but persists]   claim, settle, regen, no-room, keep, hear, move, read, leave, end, track,
//	                               reopen, return, redeem, seen, pulse
//	store down | store up
//	clock of store T               its machine's clock is set so far ahead (-1h: back)
//	other H SIZE                   something else on the machine holds that much
//	flutter H SIZE SIZE every T for T   that by turns
//	stalls H N%                    PSI some, avg10
//	cordon H | drain H | open H
//	set P cap N [for T] [is refused]   an operator's, beside what is configured
//	hold P | resume P              no more slots; as configured again
//	rotate keys                    a new key: verified everywhere, signed with 1 s later, the old one dropped
//
// Expectations. N is a number, or `at most N`, `at least N`:
//
//	expect KEY admitted [on H] [epoch N]         the last answer to its caller
//	expect KEY refused CODE | waiting [for W] | unanswered | gone | going
//	expect N admitted, N refused CODE, … [among PREFIX]   of all keys; `N admitted at once`: their first calls were a yes
//	expect KEY is STATE [on H] | is unknown      what the store says
//	expect KEY runs on H | runs nowhere          what the kernels say
//	expect KEY booted | boot refused DENIAL
//	expect KEY tries N | waited T | yeses N | place N   calls; first call to yes; placements told; line
//	expect KEY history STATUS...                 of an app
//	expect order KEY...                          they were admitted in this order
//	expect H admittable|reserved|reservations|kept|aside|charged|sandboxes|outside|resident|free N   MiB, or how many
//	expect H intake WORD | H moves N             open, pressure, cordoned, draining; times the valve moved
//	expect pool P busy|waiting|cap N
//	expect idle                                  every gauge is zero
type Scenario struct {
	File  string
	Name  string
	Seeds int // under so many draws of delays it must end as it says
	steps []step
}

// usualSeeds is under how many draws of delays a scenario is played.
const usualSeeds = 10

// step is one line.
type step struct {
	line int
	text string
	do   act
}

// act is what a command does to the stage; its error is what was expected and what was.
type act func(*stage) error

// ParseScenarios reads a file: its sections, or the whole as one.
func ParseScenarios(file, text string) ([]Scenario, error) {
	var all []Scenario
	var shared []step
	current := &shared
	no, seeds := 0, usualSeeds
	for raw := range strings.Lines(text) {
		no++
		line := strings.TrimSpace(raw)
		if line == "" || line[0] == '#' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "== "); ok {
			all = append(all, Scenario{File: file, Name: name, Seeds: seeds, steps: shared[:len(shared):len(shared)]})
			current = &all[len(all)-1].steps
			continue
		}
		if text, ok := strings.CutPrefix(line, "seeds "); ok {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%s:%d: %s: how many seeds?", file, no, line)
			}
			seeds = n
			continue
		}
		do, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", file, no, line, err)
		}
		*current = append(*current, step{no, line, do})
	}
	if len(all) == 0 {
		all = append(all, Scenario{File: file, Seeds: seeds, steps: shared})
	}
	for _, s := range all {
		if !s.proves() {
			return nil, fmt.Errorf("%s: %q expects nothing", file, s.Name)
		}
	}
	return all, nil
}

func (sc Scenario) proves() bool {
	for _, s := range sc.steps {
		if strings.HasPrefix(s.text, "expect ") {
			return true
		}
	}
	return false
}

func parseLine(line string) (act, error) {
	w := &wording{rest: strings.Fields(line)}
	verb := w.word("a command")
	parse := verbs()[verb]
	if parse == nil {
		return nil, fmt.Errorf("unknown command %q", verb)
	}
	do := parse(w)
	if len(w.rest) > 0 {
		w.fail("nobody knows what %q means here", strings.Join(w.rest, " "))
	}
	return do, w.err
}

// verbs are the commands.
func verbs() map[string]func(*wording) act {
	return map[string]func(*wording) act{
		"pool": parsePool, "ceiling": parseCeiling, "quota": parseQuota, "class": parseClass,
		"host": parseHost, "replica": parseReplica, "at": parseAt, "after": parseAfter,
		"create": parseCreate, "attempt": parseAttempt, "hang": parseHangUp, "heartbeat": parseHeartbeat,
		"release": parseRelease, "app": parseApp, "boot": parseBoot, "grow": parseGrow, "end": parseEnd,
		"kill": parseKill, "restart": parseRestart, "wipe": parseWipe, "forget": parseForget, "pause": parsePause,
		"partition": parsePartition, "deaf": parseDeaf, "freeze": parseFreeze, "heal": parseHeal,
		"lose": parseLose, "store": parseStore, "clock": parseClock, "other": parseOther,
		"flutter": parseFlutter, "stalls": parseStalls, "cordon": parseIntake("cordoned"),
		"drain": parseIntake("draining"), "open": parseIntake("open"), "rotate": parseRotate,
		"expect": parseExpect, "share": parseShare, "keep": parseKeep, "die": parseDie, "list": parseList,
		"set": parseSet, "hold": parseHold, "resume": parseResume, "stream": parseStream, "crowd": parseCrowd,
	}
}
