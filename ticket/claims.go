package ticket

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Version is the version of the claims' encoding.
const Version = 1

// Bounds of the claims, in bytes. A length fits in one byte of the encoding.
const (
	MaxKeyID = 32
	MaxName  = 128 // audience, consumer, key, pool, class, tenant, admission id

	names     = 8 // strings in the encoding, the key id among them
	numbers   = 4
	maxClaims = 1 + names + MaxKeyID + (names-1)*MaxName + 8*numbers
	maxMillis = 253402300799999 // the last millisecond of the year 9999
)

// Claims are what a ticket says. Version, KeyID and Audience are stamped by the minting key.
type Claims struct {
	Version     uint8
	KeyID       string // which root's key signed it
	Audience    string // the host, or the substrate, that may redeem it
	Consumer    string // whose admission it is
	Key         string // the consumer's name for it
	Pool        string
	Class       string
	Tenant      string
	AdmissionID string
	Memory      gate.Bytes // configured size
	Epoch       int64      // of the placing; a later one supersedes it
	Issued      time.Time  // the store's clock, in milliseconds
	Expires     time.Time  // judged by a wall clock only without a host
}

// check refuses what could not be encoded and read back as it is.
func (c *Claims) check() error {
	for i := range names - 2 {
		if name, s := c.field(i); len(s) > MaxName {
			return fmt.Errorf("ticket: %s is %d bytes, at most %d", name, len(s), MaxName)
		}
	}
	switch {
	case c.AdmissionID == "":
		return fmt.Errorf("ticket: admission id is empty")
	case c.Memory < 0 || c.Epoch < 0:
		return fmt.Errorf("ticket: memory %d and epoch %d may not be negative", c.Memory, c.Epoch)
	case !validTimes(c.Issued.UnixMilli(), c.Expires.UnixMilli()):
		return fmt.Errorf("ticket: it must be issued (%v) after 1970 and before it expires (%v)", c.Issued, c.Expires)
	}
	return nil
}

// field returns the caller's strings in the order of the encoding.
func (c *Claims) field(i int) (name, value string) {
	switch i {
	case 0:
		return "consumer", c.Consumer
	case 1:
		return "key", c.Key
	case 2:
		return "pool", c.Pool
	case 3:
		return "class", c.Class
	case 4:
		return "tenant", c.Tenant
	}
	return "admission id", c.AdmissionID
}

func validTimes(issued, expires int64) bool {
	return 0 <= issued && issued < expires && expires <= maxMillis
}

// append appends the encoding of checked claims under a key's id and audience.
func (c *Claims) append(b []byte, keyID, audience string) []byte {
	b = append(b, Version)
	b = appendString(b, keyID)
	b = appendString(b, audience)
	b = appendString(b, c.Consumer)
	b = appendString(b, c.Key)
	b = appendString(b, c.Pool)
	b = appendString(b, c.Class)
	b = appendString(b, c.Tenant)
	b = appendString(b, c.AdmissionID)
	b = binary.BigEndian.AppendUint64(b, uint64(c.Memory))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(c.Issued.UnixMilli()))
	return binary.BigEndian.AppendUint64(b, uint64(c.Expires.UnixMilli()))
}

func appendString(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...)
}
