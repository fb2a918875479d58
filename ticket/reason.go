package ticket

// Reason is why a boot was refused over its ticket. It is an error, so that
// errors.Is(err, ticket.Forged) works; OK is none.
type Reason uint8

// The reasons. The first eight are said by Verify, the last two by whoever holds the ledger.
const (
	OK         Reason = iota
	Missing           // no ticket at all
	Malformed         // not the text of a ticket
	Forged            // a bad MAC, or a key id that is not held here
	Expired           // past its end by the wall clock; asked for only without a host
	OtherHost         // it names another audience; its MAC cannot be judged here
	OtherKey          // it names another consumer, key, admission, pool or class
	Superseded        // it carries another epoch than the admission has now
	Released          // its admission was released
	Replayed          // it was redeemed before
)

var reasonWords = [...]string{
	OK: "ok", Missing: "missing", Malformed: "malformed", Forged: "forged", Expired: "expired",
	OtherHost: "other_host", OtherKey: "other_key", Superseded: "superseded",
	Released: "released", Replayed: "replayed",
}

// Reasons returns every reason for a refusal.
func Reasons() []Reason {
	all := make([]Reason, 0, len(reasonWords)-1)
	for r := Missing; int(r) < len(reasonWords); r++ {
		all = append(all, r)
	}
	return all
}

// String returns the word of the wire and of the metric's label.
func (r Reason) String() string {
	if int(r) < len(reasonWords) {
		return reasonWords[r]
	}
	return "unknown"
}

// Error makes a reason an error. It never says more than the word: no MAC, no claim.
func (r Reason) Error() string { return "ticket rejected: " + r.String() }

// Err returns nil for OK, else the reason.
func (r Reason) Err() error {
	if r == OK {
		return nil
	}
	return r
}
