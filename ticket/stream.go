package ticket

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

const streamPurpose = "stream"

// IDs names the keys.
func (ks *AudienceKeys) IDs() []string {
	ids := make([]string, len(ks.keys))
	for i := range ks.keys {
		ids[i] = ks.keys[i].id
	}
	return ids
}

// Stream is what a replica and the host of this audience prove themselves to each other with.
// It is derived from the host's own key under a label of its own, so that neither a ticket
// nor a proof is ever good as the other, and that whoever has one host's keys can neither
// order another host about nor speak for it. Ok is false where no key has the id.
func (ks *AudienceKeys) Stream(id string) (mac *MAC, ok bool, err error) {
	k := ks.byID([]byte(id))
	if k == nil {
		return nil, false, nil
	}
	b, err := hkdf.Key(sha256.New, k.secret.open()[:], []byte(hkdfSalt), streamPurpose+"\x00"+ks.audience, 32)
	if err != nil {
		return nil, false, fmt.Errorf("ticket: derive the stream key of %q: %w", id, err)
	}
	return NewMAC((*[32]byte)(b)), true, nil
}

// Merge returns the keys with those of other that it lacks, in a keys file's bounds; they
// verify, and do not sign. Where one id names two secrets its own stays and clash names it.
func (ks *AudienceKeys) Merge(other *AudienceKeys) (merged AudienceKeys, clash string) {
	merged = AudienceKeys{audience: ks.audience, keys: append([]AudienceKey(nil), ks.keys...)}
	for _, k := range other.keys {
		had := ks.byID([]byte(k.id))
		switch {
		case had != nil && *had.secret.open() != *k.secret.open():
			clash = k.id
		case had == nil && len(merged.keys) < MaxRoots:
			k.state = VerifyOnly
			merged.keys = append(merged.keys, k)
		}
	}
	return merged, clash
}

// Without returns the keys but those named.
func (ks *AudienceKeys) Without(gone func(id string) bool) AudienceKeys {
	kept := AudienceKeys{audience: ks.audience}
	for _, k := range ks.keys {
		if !gone(k.id) {
			kept.keys = append(kept.keys, k)
		}
	}
	return kept
}
