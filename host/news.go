package host

import "slices"

// News is what a host tells its replicas unasked: its newest verdict, and what happened
// since it was last told, to be written in the order of Tracks, Reopens, Ends.
type News struct {
	Verdict Verdict
	Tracks  []Ref // booted
	Reopens []Ref // ended, and reserved again for the next start; whoever missed it finds it by Holds
	Ends    []End // told again until acknowledged as written
}

// Add takes in what happened later. A boot undoes the news that its place was kept for it.
func (n *News) Add(later News) {
	n.Verdict = later.Verdict
	for _, ref := range later.Tracks {
		n.Reopens = slices.DeleteFunc(n.Reopens, func(r Ref) bool { return r == ref })
	}
	n.Tracks = append(n.Tracks, later.Tracks...)
	n.Reopens = append(n.Reopens, later.Reopens...)
	n.Ends = append(n.Ends, later.Ends...)
}
