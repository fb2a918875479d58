package ticket

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The two keys files. A replica's holds roots, a host's only its own audience's keys:
//
//	{"version": 1, "roots": [{"id": "2026-09", "state": "signing", "since": "2026-09-01T12:00:00Z", "secret": "<base64>"}]}
//	{"version": 1, "audience": "host-7", "keys": [{"id": "2026-09", "state": "signing", "secret": "<base64>"}]}
//
// A secret is standard base64 of 32 bytes or more: openssl rand -base64 32 makes one. Roots
// stand in the order of their age; since may be left out.

const maxKeysFile = 64 << 10

type keysFile struct {
	Version  int       `json:"version"`
	Audience string    `json:"audience,omitempty"`
	Roots    []fileKey `json:"roots,omitempty"`
	Keys     []fileKey `json:"keys,omitempty"`
}

type fileKey struct {
	ID     string    `json:"id"`
	State  string    `json:"state"`
	Since  time.Time `json:"since,omitzero"` // of roots
	Secret string    `json:"secret"`
}

// ParseKeyring reads a replica's keys file. No error repeats a secret.
func ParseKeyring(data []byte) (Keyring, error) {
	f, err := parseKeysFile(data)
	if err != nil {
		return Keyring{}, err
	}
	if f.Audience != "" || f.Keys != nil {
		return Keyring{}, errors.New("ticket: keys file: this is a host's file (audience, keys), not one of roots")
	}
	roots := make([]Root, 0, len(f.Roots))
	for i, k := range f.Roots {
		state, secret, err := k.decode()
		if err != nil {
			return Keyring{}, fmt.Errorf("ticket: keys file: root %d: %w", i+1, err)
		}
		r, err := NewRoot(k.ID, state, secret)
		if err != nil {
			return Keyring{}, fmt.Errorf("keys file: root %d: %w", i+1, err)
		}
		r.since = k.Since
		roots = append(roots, r)
	}
	return NewKeyring(roots...)
}

// ParseAudienceKeys reads a host's keys file.
func ParseAudienceKeys(data []byte) (AudienceKeys, error) {
	f, err := parseKeysFile(data)
	switch {
	case err != nil:
		return AudienceKeys{}, err
	case f.Roots != nil:
		return AudienceKeys{}, errors.New("ticket: keys file: a host's file must not hold roots")
	case f.Audience == "" || len(f.Audience) > MaxName:
		return AudienceKeys{}, fmt.Errorf("ticket: keys file: audience is 1 to %d bytes, not %d", MaxName, len(f.Audience))
	case len(f.Keys) == 0 || len(f.Keys) > MaxRoots:
		return AudienceKeys{}, fmt.Errorf("ticket: keys file: 1 to %d keys, not %d", MaxRoots, len(f.Keys))
	}
	ks := AudienceKeys{audience: f.Audience}
	for i, k := range f.Keys {
		if err := ks.add(k); err != nil {
			return AudienceKeys{}, fmt.Errorf("ticket: keys file: key %d: %w", i+1, err)
		}
	}
	return ks, nil
}

func (ks *AudienceKeys) add(k fileKey) error {
	state, secret, err := k.decode()
	if err != nil {
		return err
	}
	if err := checkKeyID(k.ID); err != nil {
		return err
	}
	if err := checkSecret(secret); err != nil {
		return err
	}
	if len(secret) != 32 {
		return fmt.Errorf("a derived key is 32 bytes, not %d", len(secret))
	}
	if ks.byID([]byte(k.ID)) != nil {
		return fmt.Errorf("a second key is named %q", k.ID)
	}
	if other, ok := ks.Signing(); ok && state == Signing {
		return fmt.Errorf("keys %q and %q are both signing", other.id, k.ID)
	}
	ks.keys = append(ks.keys, newAudienceKey(k.ID, ks.audience, state, (*[32]byte)(secret)))
	return nil
}

func parseKeysFile(data []byte) (keysFile, error) {
	var f keysFile
	if len(data) > maxKeysFile {
		return f, fmt.Errorf("ticket: keys file: %d bytes, at most %d", len(data), maxKeysFile)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return f, fmt.Errorf("ticket: keys file: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return f, errors.New("ticket: keys file: something follows the document")
	}
	if f.Version != 1 {
		return f, fmt.Errorf("ticket: keys file: version %d, must be 1", f.Version)
	}
	return f, nil
}

// decode reads state and secret. A base64 error tells an offset, not the text.
func (k fileKey) decode() (State, []byte, error) {
	var state State
	switch k.State {
	case "verify-only":
	case "signing":
		state = Signing
	default:
		return 0, nil, fmt.Errorf("state %q is neither verify-only nor signing", k.State)
	}
	secret, err := base64.StdEncoding.DecodeString(k.Secret)
	if err != nil {
		return 0, nil, fmt.Errorf("secret: %w", err)
	}
	return state, secret, nil
}

// EncodeFile returns the replica's keys file, secrets and all. It is not MarshalJSON, so
// that nothing writes secrets by accident.
func (k Keyring) EncodeFile() ([]byte, error) {
	f := keysFile{Version: 1}
	for _, r := range k.roots {
		key := encodeKey(r.id, r.state, *r.secret.open())
		if !r.since.IsZero() {
			key.Since = r.since.UTC().Truncate(time.Millisecond)
		}
		f.Roots = append(f.Roots, key)
	}
	return encodeKeysFile(f)
}

// EncodeFile returns the host's keys file.
func (ks *AudienceKeys) EncodeFile() ([]byte, error) {
	f := keysFile{Version: 1, Audience: ks.audience}
	for _, k := range ks.keys {
		f.Keys = append(f.Keys, encodeKey(k.id, k.state, k.secret.open()[:]))
	}
	return encodeKeysFile(f)
}

func encodeKey(id string, state State, secret []byte) fileKey {
	return fileKey{ID: id, State: state.String(), Secret: base64.StdEncoding.EncodeToString(secret)}
}

func encodeKeysFile(f keysFile) ([]byte, error) {
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("ticket: encode keys file: %w", err)
	}
	return append(b, '\n'), nil
}
