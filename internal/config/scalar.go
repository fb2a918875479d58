package config

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Limit is a whole number of sandboxes, or None.
type Limit int64

// None is the limit of what has none; it is spelled out, never assumed.
const None = Limit(pool.Unlimited)

// Milli is a decimal number in thousandths: cores, or a fraction.
type Milli int64

// Percent is a percentage in hundredths of a percent.
type Percent int64

// Placement says who boots what a pool admits.
type Placement string

// The placements.
const (
	OnHost Placement = "host" // on a host with an agent
	NoHost Placement = "none" // by a substrate that demands the ticket itself
)

// Record says who keeps the admissions of a class.
type Record string

// The records.
const (
	ByStore Record = ""     // the store: caps, quotas and queues count; written store, or left out
	ByHost  Record = "host" // the host that promised the memory, alone: no round trip to the store
)

const byStoreWord = "store"

func decodeRecord(n *yaml.Node, p *Record) string {
	var word string
	text := decodeWord(n, &word, byStoreWord, string(ByHost))
	if *p = ByStore; word == string(ByHost) {
		*p = ByHost
	}
	return text
}

// Reserve says what the stateless sandboxes of a class are charged at least.
type Reserve string

// The reserves.
const (
	Learned Reserve = ""      // what runs of the template show, once enough were seen; written learned, or left out
	Fixed   Reserve = "fixed" // what reserve_fraction and reserve_floor say, for good
)

const learnedWord = "learned"

func decodeReserve(n *yaml.Node, p *Reserve) string {
	var word string
	text := decodeWord(n, &word, learnedWord, string(Fixed))
	if *p = Learned; word == string(Fixed) {
		*p = Fixed
	}
	return text
}

// Role is what a consumer may do.
type Role string

// The roles. Of the first three each includes those before it; the last one stands for
// itself, and admin includes it.
const (
	RoleConsumer  Role = "consumer"  // asks for itself
	RoleOperator  Role = "operator"  // sees and releases everybody's, sets caps for a while
	RoleAdmin     Role = "admin"     // changes the configuration
	RoleSubstrate Role = "substrate" // redeems the tickets of its audiences, and says what runs there
)

// AnyTenant, in a consumer's tenants, stands for all of them.
const AnyTenant = "*"

// AnyAudience stands for all of them; only the local consumer of a machine has it.
const AnyAudience = "*"

// OutOfGate says what becomes of a sandbox without a ticket.
type OutOfGate string

// What becomes of it.
const (
	AlarmOutOfGate OutOfGate = "alarm" // it is told and charged
	StopOutOfGate  OutOfGate = "stop"  // and stopped, unless it keeps state
)

// TokenHash is the SHA-256 of a consumer's token; the token itself is kept nowhere.
type TokenHash [32]byte

// scalar decodes a node into a setting of one of the scalar types and returns what is
// wrong with it, or "". known is false for every other type.
func scalar(n *yaml.Node, p any) (text string, known bool) {
	switch p := p.(type) {
	case *string:
		return decodeString(n, p), true
	case *bool:
		return decodeBool(n, p), true
	case *int:
		return decodeInt(n, p), true
	case *int64:
		return decodeInt(n, p), true
	case *Limit:
		return decodeLimit(n, p), true
	case *Milli:
		return decodeDecimal(n, p, 3), true
	case *Percent:
		return decodeDecimal(n, p, 2), true
	case *gate.Bytes:
		return decodeBytes(n, p), true
	case *time.Duration:
		return decodeDuration(n, p), true
	case *gate.Mode:
		return decodeWord(n, p, gate.WorkingSet, gate.Committed), true
	case *OutOfGate:
		return decodeWord(n, p, AlarmOutOfGate, StopOutOfGate), true
	case *host.Enforcement:
		return decodeWord(n, p, host.Enforce, host.Shadow, host.Observe), true
	case *host.Reclaim:
		return decodeWord(n, p, host.ReclaimOff, host.ReclaimDryRun, host.ReclaimOn), true
	case *pool.Enforcement:
		return decodeWord(n, p, pool.Enforce, pool.Shadow), true
	case *gate.ReserveUntil:
		return decodeUntil(n, p), true
	case *Placement:
		return decodeWord(n, p, OnHost, NoHost), true
	case *Record:
		return decodeRecord(n, p), true
	case *Reserve:
		return decodeReserve(n, p), true
	case *Role:
		return decodeWord(n, p, RoleConsumer, RoleOperator, RoleAdmin, RoleSubstrate), true
	case *TokenHash:
		return decodeHash(n, p), true
	}
	return "", false
}

func decodeString(n *yaml.Node, p *string) string {
	if n.Kind != yaml.ScalarNode {
		return "is " + kindOf(n) + "; write a text"
	}
	if n.ShortTag() != "!!str" {
		return fmt.Sprintf("is %s; put it in quotes, as in %q", kindOf(n), short(n.Value))
	}
	*p = n.Value
	return ""
}

func decodeBool(n *yaml.Node, p *bool) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		return shown(n) + " is neither true nor false; write one of the two"
	}
	*p = n.Value[0] == 't' || n.Value[0] == 'T'
	return ""
}

func decodeInt[T ~int | ~int64](n *yaml.Node, p *T) string {
	if n.Style&quoted != 0 && wholeNumber.MatchString(n.Value) {
		return "is in quotes; write " + n.Value + " without them"
	}
	if n.Kind != yaml.ScalarNode || !wholeNumber.MatchString(n.Value) {
		return shown(n) + " is no whole number; write digits, as in 30"
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || i > maxCount || i < -maxCount {
		return fmt.Sprintf("%s is beyond any use; write at most %d", shown(n), int64(maxCount))
	}
	*p = T(i)
	return ""
}

// maxCount bounds every count, so that no sum or product of them can wrap.
const maxCount = 1_000_000_000

func decodeLimit(n *yaml.Node, p *Limit) string {
	if n.Kind == yaml.ScalarNode && n.Value == "none" {
		*p = None
		return ""
	}
	var i Limit
	if text := decodeInt(n, &i); text != "" {
		return text + ", or the word none"
	}
	if i < 0 {
		return shown(n) + " is below zero; write a whole number, or the word none"
	}
	*p = i
	return ""
}

func decodeDecimal[T ~int64](n *yaml.Node, p *T, places int) string {
	if n.Style&quoted != 0 && number.MatchString(n.Value) {
		return "is in quotes; write " + n.Value + " without them"
	}
	if n.Kind != yaml.ScalarNode {
		return shown(n) + " is no number; write it as in 0.5"
	}
	i, text := parseDecimal(n.Value, places)
	if text == "" {
		*p = T(i)
	}
	return text
}

func decodeBytes(n *yaml.Node, p *gate.Bytes) string {
	if n.Kind != yaml.ScalarNode {
		return shown(n) + " is no size; write a number and its unit, as in 512MiB"
	}
	b, text := parseBytes(n.Value)
	if text == "" {
		*p = b
	}
	return text
}

func decodeDuration(n *yaml.Node, p *time.Duration) string {
	if n.Kind != yaml.ScalarNode {
		return shown(n) + " is no duration; write a number and its unit, as in 15s"
	}
	d, text := parseDuration(n.Value)
	if text == "" {
		*p = d
	}
	return text
}

// decodeWord decodes one of the words that the values print.
func decodeWord[T any](n *yaml.Node, p *T, values ...T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
		if n.Kind == yaml.ScalarNode && n.Value == words[i] {
			*p = v
			return ""
		}
	}
	return fmt.Sprintf("%s is not known here; write %s", shown(n), either(words))
}

func decodeUntil(n *yaml.Node, p *gate.ReserveUntil) string {
	var word string
	if text := decodeWord(n, &word, untilWord(gate.UntilEnd), untilWord(gate.UntilSettled)); text != "" {
		return text
	}
	*p = gate.UntilEnd
	if word == untilWord(gate.UntilSettled) {
		*p = gate.UntilSettled
	}
	return ""
}

func untilWord(u gate.ReserveUntil) string {
	if u == gate.UntilSettled {
		return "settled"
	}
	return "end"
}

// decodeHash never prints what it was given: it may be the token itself.
func decodeHash(n *yaml.Node, p *TokenHash) string {
	raw, err := hex.DecodeString(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || len(raw) != len(p) {
		return "is no SHA-256 in hex; write 64 hex digits in quotes, as printed by: printf %s \"$TOKEN\" | sha256sum"
	}
	copy(p[:], raw)
	return ""
}
