package host

// News is what a host tells its replicas unasked: its newest verdict, and what happened
// since it was last told.
type News struct {
	Verdict Verdict
	Ends    []End // told again until acknowledged as written
	Tracks  []Ref // booted
}
