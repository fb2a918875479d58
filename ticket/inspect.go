package ticket

// Inspect reads what a text says of itself, and proves nothing of it: whoever wrote it may
// have written anything. The error is Missing or Malformed.
func Inspect(text Text) (Claims, error) {
	if text == "" {
		return Claims{}, Missing
	}
	var v View
	if _, _, ok := v.decode(string(text)); !ok {
		return Claims{}, Malformed
	}
	return v.Claims(), nil
}

// ParseReason reads a reason from its word; ok is false for any other, and for OK's.
func ParseReason(word string) (r Reason, ok bool) {
	for _, r := range Reasons() {
		if r.String() == word {
			return r, true
		}
	}
	return OK, false
}

// KeyIDs names the roots whose keys these are.
func (ks *AudienceKeys) KeyIDs() []string {
	ids := make([]string, 0, len(ks.keys))
	for i := range ks.keys {
		ids = append(ids, ks.keys[i].id)
	}
	return ids
}
