package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/table"
)

// changes lists what would have admitted the request: what its caller can do, then what only an
// operator can. Entries without a kind stand for what does not apply here.
func changes(f *Facts) []Change {
	switch f.Code {
	case api.NoCapacity:
		return room(f)
	case api.HostStartsFull, api.HostPressure:
		return append(busyHosts(f), addHost(f))
	case api.HostDraining:
		return append(busyHosts(f), addHost(f), cordoned(f))
	case api.NoHealthyAgents:
		return append([]Change{waitFor(f, "a host is heard again"), queueUp(f)}, silentHosts(f)...)
	case api.PoolFull, api.QueueFull, api.WaitingCapacity, api.QueueTimeout, api.TenantOverQuota:
		return turn(f)
	case api.HostSilent:
		return silence(f)
	case api.ReservationLapsed:
		return []Change{waitFor(f, "the same key is placed anew")}
	case api.Releasing:
		return []Change{waitFor(f, "what runs under this key has ended"), otherKey(f, "another key is another admission, which does not wait for that end")}
	case api.Unavailable:
		return unavailable(f)
	case api.Infeasible:
		return infeasible(f)
	case api.NotFound:
		return []Change{{Kind: Request, Who: Caller, Target: "key", Why: "post the key again: it was released while this call was under way"}}
	case api.KeyConflict:
		return []Change{otherKey(f, "another key is another admission; the same contents under this key are the one that there is")}
	}
	return never(f)
}

// room is for a fleet, or the one host that is demanded, without room.
func room(f *Facts) []Change {
	out := []Change{smaller(f), unlabeled(f), elsewhere(f), waitFor(f, "room comes back on a host"), queueUp(f), cordoned(f)}
	return append(append(out, silentHosts(f)...), addHost(f))
}

// busyHosts is for hosts that take nothing at this moment, whatever its size.
func busyHosts(f *Facts) []Change {
	return []Change{elsewhere(f), waitFor(f, "a host takes again"), queueUp(f)}
}

// turn is for who has no slot, no host or no quota yet.
func turn(f *Facts) []Change {
	switch {
	case f.Code == api.QueueTimeout:
		again := Change{Kind: QueueUp, Who: Caller, Target: "key", Why: "post the key again: it takes a new place, and waits as long again"}
		if f.lacks() == forHost {
			return []Change{again, smaller(f), unlabeled(f), elsewhere(f), cordoned(f), addHost(f)}
		}
		return append([]Change{again}, limits(f)...)
	case f.lacks() == forHost && f.Code == api.WaitingCapacity: // its key stands for these contents
		return append([]Change{waitFor(f, "room comes back on a host"), cordoned(f), addHost(f)}, silentHosts(f)...)
	case f.lacks() == forHost:
		return room(f)
	case f.Code == api.WaitingCapacity:
		return append([]Change{waitFor(f, "it is this one's turn")}, limits(f)...)
	case f.Code == api.TenantOverQuota:
		return append([]Change{queueUp(f)}, limits(f)...)
	case f.Code == api.QueueFull:
		return append([]Change{waitFor(f, "the line is shorter")}, limits(f)...)
	}
	return append([]Change{waitFor(f, "a slot comes back"), queueUp(f)}, limits(f)...)
}

// waitFor is a change that time alone brings.
func waitFor(f *Facts, until string) Change {
	c := Change{Kind: Wait, Who: Caller, Target: "time", To: f.RetryAfter.Milliseconds(), Why: "ask again once " + until}
	if f.RetryAfter > 0 {
		c.Why += ": in about " + About(f.RetryAfter)
	}
	return c
}

// About is a time as people say it.
func About(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int64(d.Round(time.Second)/time.Second))
	}
	return fmt.Sprintf("%d min", int64(d.Round(time.Minute)/time.Minute))
}

func queueUp(f *Facts) Change {
	if f.ByHost || f.Request.Mode == api.WaitModeQueue || f.Hosts == 0 && !f.Pool.WithoutHosts {
		return Change{} // there is no line, it stands in it, or it is never let into one
	}
	return Change{Kind: QueueUp, Who: Caller, Target: "mode", Patch: patch("mode", "queue"), Why: "with a place in the line it is admitted when it is its turn, and passed by nobody behind it"}
}

func elsewhere(f *Facts) Change {
	id := f.pinned()
	if id == "" || !f.ElsewhereFits {
		return Change{}
	}
	return Change{Kind: Elsewhere, Who: Caller, Target: "host", Patch: patch("host", nil), Why: "another host than " + id + " has room now"}
}

func unlabeled(f *Facts) Change {
	if !f.UnlabeledFits {
		return Change{}
	}
	return Change{Kind: Request, Who: Caller, Target: "labels", Patch: patch("labels", nil), Why: "a host without the labels that the request demands has room"}
}

// otherKey is for a key that stands for something else.
func otherKey(f *Facts, why string) Change {
	const longest = 128
	key := f.Request.Key
	if len(key) > longest-2 {
		key = key[:longest-2]
	}
	return Change{Kind: Request, Who: Caller, Target: "key", Patch: patch("key", key+"-2"), Why: why}
}

// cordoned is for a host that an operator keeps from taking anything, and that would take this.
func cordoned(f *Facts) Change {
	for i := range f.Near {
		r := &f.Near[i]
		if r.Why != table.Cordoned || r.Admittable < r.Need {
			continue
		}
		return Change{
			Kind: HostDeed, Who: Operator, Target: r.Host, Command: "plimsoll host uncordon " + r.Host + because(f),
			Why: "an operator cordoned it; open again it has " + grouped(r.Admittable.FloorMiB()) + " MiB to promise",
		}
	}
	return Change{}
}

// silentHosts is for hosts that nobody hears.
func silentHosts(f *Facts) []Change {
	if ids := f.hosts("silent"); len(ids) > 0 {
		return []Change{{
			Kind: AddHost, Who: Operator, Target: ids[0], Command: "plimsoll agent --config FILE",
			Why: fmt.Sprintf("the agent of %s is not heard (%s in all); start it there again, with its own file", ids[0], plural(len(ids), "host")),
		}}
	}
	if f.Hosts == 0 {
		return []Change{addHost(f)}
	}
	return nil
}

// addHost is for a fleet that is too small for it now. It is of no use to who demands one host.
func addHost(f *Facts) Change {
	if f.pinned() != "" {
		return Change{}
	}
	need := f.Ask.ReserveOn(0).CeilMiB()
	return Change{
		Kind: AddHost, Who: Operator, Target: "fleet", To: need, Command: "plimsoll host token create",
		Why: fmt.Sprintf("with the token of that command a machine joins, by plimsoll agent; %s MiB admittable on it are enough", grouped(need)),
	}
}

// silence is for a request that rests on a host that is not heard: its key is there already, or it
// demands that host.
func silence(f *Facts) []Change {
	id := firstWord(f.Host, f.pinned())
	if id == "" {
		return []Change{waitFor(f, "the host is heard again")}
	}
	out := []Change{
		elsewhere(f),
		waitFor(f, "host "+id+" is heard again, or what it promised has lapsed"),
		{Kind: AddHost, Who: Operator, Target: id, Command: "plimsoll agent --config FILE", Why: "start the agent of " + id + " again, with its own file"},
	}
	if f.Host != "" && f.Ask.Stateful {
		out = append(out, Change{
			Kind: HostDeed, Who: Operator, Target: id, Command: "plimsoll host bury " + id + " --reason " + quoted("nothing runs there any more"),
			Why: "only once its machine is surely off: the key is then placed anew, and two of one stateful key must never run",
		})
	}
	return out
}

func unavailable(f *Facts) []Change {
	if strings.HasPrefix(f.Detail, "no configuration is in force") || f.Detail == "the limits are not loaded" {
		return []Change{{Kind: Server, Who: Operator, Target: "config", Command: "plimsoll config apply FILE", Why: "nothing is admitted before a configuration is in force"}}
	}
	return []Change{
		waitFor(f, "the store, or the host that was asked, answers"),
		{Kind: Server, Who: Operator, Target: "store", Command: "plimsoll replicas", Why: "another replica may reach the store; the server's log says what did not answer"},
	}
}

// because is a reason for the audit.
func because(f *Facts) string { return " --reason " + quoted("room for "+f.Request.Key) }

// quoted is a word of a command line; what stands in it is made of names alone.
func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, "") + `"` }

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
