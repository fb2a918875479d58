package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/plimsoll-project/plimsoll/ledger"
	"github.com/plimsoll-project/plimsoll/pool"
)

// ByHostEpoch is the epoch of whatever its host alone records: its id is never used again.
const ByHostEpoch = 1

// An id of what its host alone records: hst-, the instant in 12 and chance in 16 hexadecimal
// digits, a full stop, the host. So any replica knows whom to ask, and nobody takes it for one
// of the store's.
const (
	hostIDPrefix = ledger.ByHostPrefix
	hostIDHead   = len(hostIDPrefix) + 12 + 16 + 1
	mostHostPart = 128 - hostIDHead // a ticket has room for 128 in all
)

// HostID makes the id under which a host is asked. It is new for each host asked: an answer
// that was lost, and a release that comes late, are about nothing else.
func HostID(host string, now pool.Time, chance uint64) string {
	b := make([]byte, 0, 128)
	b = append(b, hostIDPrefix...)
	b = appendHex(b, uint64(now), 12)
	b = appendHex(b, chance, 16)
	b = append(b, '.')
	return string(append(b, hostPart(host)...))
}

func appendHex(b []byte, n uint64, digits int) []byte {
	const hexDigits = "0123456789abcdef"
	for i := digits - 1; i >= 0; i-- {
		b = append(b, hexDigits[n>>(4*i)&15])
	}
	return b
}

// hostPart is a host's name, or, of a long one, its beginning and a digest of it all.
func hostPart(host string) string {
	if len(host) <= mostHostPart {
		return host
	}
	sum := sha256.Sum256([]byte(host))
	digest := hex.EncodeToString(sum[:16])
	return host[:mostHostPart-len(digest)] + digest
}

// ByHost says whether an id is of the form that only hosts record, and since when.
func ByHost(id string) (made pool.Time, ok bool) {
	if len(id) <= hostIDHead || !strings.HasPrefix(id, hostIDPrefix) || id[hostIDHead-1] != '.' {
		return 0, false
	}
	ms, err := strconv.ParseUint(id[len(hostIDPrefix):len(hostIDPrefix)+12], 16, 64)
	return pool.Time(ms), err == nil
}

// OfHost says whether an id is of what this host alone records.
func OfHost(id, host string) bool {
	_, ok := ByHost(id)
	return ok && id[hostIDHead:] == hostPart(host)
}

// RecorderOf picks the host of an id out of those that are registered: its name stands there,
// unless it is a long one.
func RecorderOf(id string, known func(host string) bool, all func() []string) (host string, ok bool) {
	if _, ok := ByHost(id); !ok {
		return "", false
	}
	part := id[hostIDHead:]
	if known(part) || len(part) < mostHostPart {
		return part, known(part)
	}
	for _, h := range all() {
		if hostPart(h) == part {
			return h, true
		}
	}
	return "", false
}
