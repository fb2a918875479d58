package hint

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/ticket"
)

// ReceiptPrefix starts every receipt.
const ReceiptPrefix = "plr1."

const (
	receiptVersion = 2
	receiptMAC     = 16 // bytes of the HMAC that travel
	maxBinding     = 256
	maxReceipt     = 2 + ticket.MaxKeyID + numbersLen + receiptMAC
	numbersLen     = 8 + 8 + 4 + 4 + 4
)

// ErrReceipt is a receipt that is not one of ours for this caller's key. It is no reason to
// refuse anything: the caller is then counted as if it came for the first time.
var ErrReceipt = errors.New("hint: not a receipt for this key")

// Receipt is what a refused caller carries back, so that any replica knows how long it has been
// trying. It reserves nothing and leaves no row. Times are the store's clock, in milliseconds.
type Receipt struct {
	First       time.Time     // of the first refusal
	Hint        time.Duration // that was told with it
	Appointment time.Time     // for which it was last told to come back
	Turn        time.Time     // of its own, which it keeps while it comes for it; never before Appointment
	Refusals    uint32        // so far
}

// Again is the receipt of one more refusal: the first stays the first, and so does what was told then.
func (r Receipt) Again(now, appointment, turn time.Time) Receipt {
	if r.First.IsZero() {
		r.First, r.Hint = now, appointment.Sub(now)
	}
	r.Appointment, r.Turn = appointment, turn
	r.Refusals++
	return r
}

// ReceiptKeys mint and read receipts; every replica derives the same from the same roots.
type ReceiptKeys struct{ keys []ticket.Derived }

// NewReceiptKeys derives the receipts' own keys: a ticket's key never makes a receipt.
func NewReceiptKeys(ring ticket.Keyring) (ReceiptKeys, error) {
	keys, err := ring.Derive("receipt")
	if err != nil {
		return ReceiptKeys{}, fmt.Errorf("hint: derive the receipts' keys: %w", err)
	}
	return ReceiptKeys{keys: keys}, nil
}

// AppendMint appends a receipt for a consumer's key to dst: base64url of
//
//	version(1) len(1) key-id u64(first ms) u64(appointment ms) u32(hint ms) u32(ms to the turn)
//	u32(refusals) mac[:16]
//
// The MAC also covers consumer and key, which do not travel: a receipt is good for its own
// request only. It allocates nothing when dst has room.
func (k ReceiptKeys) AppendMint(dst []byte, r Receipt, consumer, key string) ([]byte, error) {
	if len(k.keys) == 0 || k.keys[0].State != ticket.Signing {
		return dst, ticket.ErrNoSigningKey
	}
	first, appointment := r.First.UnixMilli(), r.Appointment.UnixMilli()
	if first < 0 || appointment < first || r.Hint < 0 || r.Turn.Before(r.Appointment) || len(consumer)+len(key) > maxBinding {
		return dst, fmt.Errorf("hint: receipt from %v for %v with %d bytes of names", r.First, r.Appointment, len(consumer)+len(key))
	}
	var raw [maxReceipt + 2 + maxBinding]byte
	b := append(raw[:0], receiptVersion, byte(len(k.keys[0].ID)))
	b = append(b, k.keys[0].ID...)
	b = binary.BigEndian.AppendUint64(b, uint64(first))
	b = binary.BigEndian.AppendUint64(b, uint64(appointment))
	b = binary.BigEndian.AppendUint32(b, uint32(min(r.Hint.Milliseconds(), math.MaxUint32)))
	b = binary.BigEndian.AppendUint32(b, uint32(min(r.Turn.Sub(r.Appointment).Milliseconds(), math.MaxUint32)))
	b = binary.BigEndian.AppendUint32(b, r.Refusals)
	b = seal(b, k.keys[0].MAC, consumer, key)
	return base64.RawURLEncoding.AppendEncode(append(dst, ReceiptPrefix...), b), nil
}

// seal appends the MAC over the body and its binding.
func seal(body []byte, mac *ticket.MAC, consumer, key string) []byte {
	var sum [32]byte
	mac.Append(sum[:0], bind(body, consumer, key))
	return append(body, sum[:receiptMAC]...)
}

// bind appends what the MAC covers besides the body; the length tells the two names apart.
func bind(body []byte, consumer, key string) []byte {
	b := binary.BigEndian.AppendUint16(body, uint16(len(consumer)))
	return append(append(b, consumer...), key...)
}

// Parse reads a receipt that a consumer's key brought back.
func (k ReceiptKeys) Parse(text, consumer, key string) (Receipt, error) {
	body, ok := strings.CutPrefix(text, ReceiptPrefix)
	if !ok || len(body) > base64.RawURLEncoding.EncodedLen(maxReceipt) || len(consumer)+len(key) > maxBinding ||
		strings.ContainsAny(body, "\r\n") {
		return Receipt{}, ErrReceipt
	}
	var raw [maxReceipt + 2 + maxBinding]byte
	n, err := base64.RawURLEncoding.Strict().Decode(raw[:], []byte(body))
	if err != nil || n < 2+numbersLen+receiptMAC {
		return Receipt{}, ErrReceipt
	}
	var mac [receiptMAC]byte
	copy(mac[:], raw[n-receiptMAC:n])
	claims := raw[:n-receiptMAC]
	id, numbers, ok := split(claims)
	if !ok || !k.proves(id, bind(claims, consumer, key), mac[:]) {
		return Receipt{}, ErrReceipt
	}
	appointment := time.UnixMilli(int64(binary.BigEndian.Uint64(numbers[8:]))).UTC()
	return Receipt{
		First:       time.UnixMilli(int64(binary.BigEndian.Uint64(numbers))).UTC(),
		Hint:        time.Duration(binary.BigEndian.Uint32(numbers[16:])) * time.Millisecond,
		Appointment: appointment,
		Turn:        appointment.Add(time.Duration(binary.BigEndian.Uint32(numbers[20:])) * time.Millisecond),
		Refusals:    binary.BigEndian.Uint32(numbers[24:]),
	}, nil
}

func split(claims []byte) (id, numbers []byte, ok bool) {
	if claims[0] != receiptVersion || len(claims) != 2+int(claims[1])+numbersLen {
		return nil, nil, false
	}
	return claims[2 : 2+claims[1]], claims[2+claims[1]:], true
}

func (k ReceiptKeys) proves(id, msg, mac []byte) bool {
	for _, d := range k.keys {
		if d.ID == string(id) {
			return d.MAC.Matches(msg, mac)
		}
	}
	return false
}
