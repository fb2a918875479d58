package ticket

import "strings"

// ForSubstrate is the audience of tickets that a substrate demands, and not a host: whoever
// boots what a pool without hosts admits. No host's id has a slash, so that the two never meet.
func ForSubstrate(name string) string { return substratePrefix + name }

const substratePrefix = "substrate/"

// SubstrateOf is the inverse of ForSubstrate; ok is false for a host's audience.
func SubstrateOf(audience string) (name string, ok bool) {
	name, ok = strings.CutPrefix(audience, substratePrefix)
	return name, ok && name != ""
}
