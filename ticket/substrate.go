package ticket

// ForSubstrate is the audience of tickets that a substrate demands, and not a host: whoever
// boots what a pool without hosts admits. No host's id has a slash, so that the two never meet.
func ForSubstrate(name string) string { return "substrate/" + name }
