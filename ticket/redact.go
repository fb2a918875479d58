package ticket

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// Whatever carries a secret, or proves something, prints as what it is and never as what it
// holds: with every verb of fmt, as JSON, in slog. Reveal is the single way out.

// sealed keeps a secret two pointers away. A struct of somebody else's with an unexported
// field of ours is printed by reflection, past every Format; it then shows an address.
type sealed[T any] struct{ p **T }

func seal[T any](v T) sealed[T] {
	p := &v
	return sealed[T]{&p}
}

func (s sealed[T]) open() *T { return *s.p }

// Text is a ticket as it travels. It is a bearer proof: whoever holds it may boot with it.
type Text string

const redacted = "(redacted)"

// Reveal returns the ticket itself, for the reply to its caller and nothing else.
func (t Text) Reveal() string { return string(t) }

// String says that there is a ticket, not which.
func (t Text) String() string {
	if t == "" {
		return ""
	}
	return Prefix + redacted
}

// Format prints String whatever the verb.
func (t Text) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// LogValue keeps it out of slog, whatever the handler.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText keeps a ticket out of JSON (but do not key a map by it: encoding/json takes a
// string kind's key as it is).
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a ticket as it travels.
func (t *Text) UnmarshalText(b []byte) error { *t = Text(b); return nil }

// String names the admission: no tenant, no consumer's key.
func (c Claims) String() string {
	return "ticket for admission " + strconv.Quote(c.AdmissionID) + " epoch " + strconv.FormatInt(c.Epoch, 10) +
		" at " + strconv.Quote(c.Audience) + " signed by " + strconv.Quote(c.KeyID)
}

// Format prints String whatever the verb.
func (c Claims) Format(f fmt.State, _ rune) { io.WriteString(f, c.String()) }

// LogValue keeps it out of slog, whatever the handler.
func (c Claims) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText keeps tenant and key out of JSON.
func (c Claims) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String names the root.
func (r Root) String() string {
	return "root " + strconv.Quote(r.id) + " " + r.state.String() + " " + redacted
}

// Format prints String whatever the verb.
func (r Root) Format(f fmt.State, _ rune) { io.WriteString(f, r.String()) }

// LogValue keeps it out of slog, whatever the handler.
func (r Root) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText keeps the secret out of JSON.
func (r Root) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String counts the roots.
func (k Keyring) String() string {
	return "keyring of " + strconv.Itoa(len(k.roots)) + " roots " + redacted
}

// Format prints String whatever the verb.
func (k Keyring) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue keeps it out of slog, whatever the handler.
func (k Keyring) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText keeps the secrets out of JSON.
func (k Keyring) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// String names the key.
func (k AudienceKey) String() string {
	return "key " + strconv.Quote(k.id) + " of " + strconv.Quote(k.audience) + " " + redacted
}

// Format prints String whatever the verb.
func (k AudienceKey) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue keeps it out of slog, whatever the handler.
func (k AudienceKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText keeps the secret out of JSON.
func (k AudienceKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// String counts the keys.
func (ks AudienceKeys) String() string {
	return strconv.Itoa(len(ks.keys)) + " keys of " + strconv.Quote(ks.audience) + " " + redacted
}

// Format prints String whatever the verb.
func (ks AudienceKeys) Format(f fmt.State, _ rune) { io.WriteString(f, ks.String()) }

// LogValue keeps it out of slog, whatever the handler.
func (ks AudienceKeys) LogValue() slog.Value { return slog.StringValue(ks.String()) }

// MarshalText keeps the secrets out of JSON.
func (ks AudienceKeys) MarshalText() ([]byte, error) { return []byte(ks.String()), nil }

// Format prints nothing of the key.
func (m MAC) Format(f fmt.State, _ rune) { io.WriteString(f, "mac "+redacted) }

// LogValue keeps it out of slog, whatever the handler.
func (m MAC) LogValue() slog.Value { return slog.StringValue("mac " + redacted) }

// MarshalText keeps the key out of JSON.
func (m MAC) MarshalText() ([]byte, error) { return []byte("mac " + redacted), nil }
