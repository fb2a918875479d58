package link

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"

	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// Each end proves that it holds one of the host's stream keys, by a MAC over both hellos: the
// nonces make it good once, the names for these two, and the direction for one of them. It
// does not keep others from reading or changing what follows; TLS does, and plaintext is for
// the loopback alone.

type direction string

const (
	fromReplica direction = "replica"
	fromAgent   direction = "agent"
)

// handshake is what both hellos said.
type handshake struct {
	host, replica            string
	incarnation              int64
	replicaMinor, agentMinor int32
	replicaNonce, agentNonce []byte
}

// text is what is proved, each part with its length before it.
func (h *handshake) text(d direction, keyID string) []byte {
	b := []byte("plimsoll stream\x00")
	for _, part := range []string{string(d), keyID, h.host, h.replica, string(h.replicaNonce), string(h.agentNonce)} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(h.incarnation))
	b = binary.BigEndian.AppendUint32(b, uint32(h.replicaMinor))
	return binary.BigEndian.AppendUint32(b, uint32(h.agentMinor))
}

func (h *handshake) prove(keys *ticket.AudienceKeys, d direction, keyID string) (*agentv1.Proof, error) {
	mac, ok, err := keys.Stream(keyID)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: key %q is not known here", ErrRefused, keyID)
	}
	return &agentv1.Proof{KeyId: keyID, Mac: mac.Append(nil, h.text(d, keyID))}, nil
}

func (h *handshake) check(keys *ticket.AudienceKeys, d direction, p *agentv1.Proof) error {
	mac, ok, err := keys.Stream(p.GetKeyId())
	if err != nil {
		return err
	}
	if !ok || !mac.Matches(h.text(d, p.GetKeyId()), p.GetMac()) || len(p.GetMac()) != 32 {
		return fmt.Errorf("%w: the %s did not prove that it holds a key of host %q", ErrRefused, d, short(h.host))
	}
	return nil
}

// common is a key that both ends hold: the one that signs, if it may be.
func common(keys *ticket.AudienceKeys, theirs []string) (id string, ok bool) {
	if k, signs := keys.Signing(); signs && slices.Contains(theirs, k.ID()) {
		return k.ID(), true
	}
	for _, id := range keys.IDs() {
		if slices.Contains(theirs, id) {
			return id, true
		}
	}
	return "", false
}

func newNonce() []byte {
	n := make([]byte, nonceSize)
	rand.Read(n)
	return n
}

// checkHello judges what both ends' hellos must have.
func checkHello(h *agentv1.Hello) error {
	switch {
	case h == nil:
		return fmt.Errorf("%w: the first frame is not a hello; another protocol is spoken here", ErrRefused)
	case h.GetMajor() != Major:
		return fmt.Errorf("%w: it speaks version %d of the protocol, and this end knows version %d alone; bring the older one up to date", ErrRefused, h.GetMajor(), Major)
	case len(h.GetNonce()) != nonceSize:
		return fmt.Errorf("%w: a nonce has %d bytes, not %d", ErrRefused, nonceSize, len(h.GetNonce()))
	case len(h.GetHost()) > maxWord || len(h.GetReplica()) > maxWord || len(h.GetVersion()) > maxWord || len(h.GetKeyIds()) > ticket.MaxRoots:
		return fmt.Errorf("%w: a hello with names longer than %d bytes, or more than %d keys", ErrRefused, maxWord, ticket.MaxRoots)
	case h.GetHost() == "" || h.GetReplica() == "":
		return fmt.Errorf("%w: a hello names a host and a replica", ErrRefused)
	}
	return nil
}

// short keeps a stranger's word short in an error.
func short(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
