package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ticket"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// inspected is a folder with a replica's keys file, a substrate's, and others'.
type inspected struct {
	dir  string
	ring ticket.Keyring
}

func newInspected(t *testing.T) inspected {
	t.Helper()
	i := inspected{dir: t.TempDir(), ring: ringOf(t, "k1", "0123456789abcdef0123456789abcdef")}
	write := func(name string, encode func() ([]byte, error)) {
		data, err := encode()
		if err == nil {
			err = os.WriteFile(filepath.Join(i.dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	substrate, err := i.ring.Audience(ticket.ForSubstrate("cloud"))
	if err != nil {
		t.Fatal(err)
	}
	write("roots", i.ring.EncodeFile)
	write("cloud", substrate.EncodeFile)
	write("other", ringOf(t, "k2", "fedcba9876543210fedcba9876543210").EncodeFile)
	write("garbage", func() ([]byte, error) { return []byte("{}"), nil })
	return i
}

func ringOf(t *testing.T, id, secret string) ticket.Keyring {
	t.Helper()
	root, err := ticket.NewRoot(id, ticket.Signing, []byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := ticket.NewKeyring(root)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func (i inspected) mint(t *testing.T, audience string) ticket.Text {
	t.Helper()
	keys, err := i.ring.Audience(audience)
	if err != nil {
		t.Fatal(err)
	}
	text, err := keys.Mint(&ticket.Claims{
		Consumer: "ci", Key: "run-4711", Pool: "sandboxes", Class: "build", Tenant: "acme\nverdict    ok\x1b[2J",
		AdmissionID: "adm-1", Memory: 512 * gate.MiB, Epoch: 42, Issued: noon.Add(-3 * time.Minute), Expires: noon.Add(7 * time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTicketInspect(t *testing.T) {
	i := newInspected(t)
	cloud, host := i.mint(t, ticket.ForSubstrate("cloud")), i.mint(t, "host-7")
	for _, c := range []struct {
		name, keys string
		text       ticket.Text
		now        time.Time
		status     int
	}{
		{"unproven", "", cloud, noon, 0},
		{"ok", "cloud", cloud, noon, 0},
		{"expired", "roots", cloud, noon.Add(time.Hour), ExitNotAllowed},
		{"host", "roots", host, noon.Add(time.Hour), 0}, // its ledger decides when it ends
		{"forged", "other", host, noon, ExitNotAllowed},
		{"otherhost", "cloud", host, noon, ExitNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			a := newApp(Options{Stdout: &out})
			keys := c.keys
			if keys != "" {
				keys = filepath.Join(i.dir, keys)
			}
			err := a.inspect(c.text, keys, c.now)
			if (err != nil) != (c.status != 0) || err != nil && judge(err).status != c.status {
				t.Errorf("%v", err)
			}
			if err != nil {
				writeVerdict(&out, judge(err))
			}
			compare(t, filepath.Join("testdata/ticket", c.name+".txt"), out.String())
			var data bytes.Buffer
			a = newApp(Options{Stdout: &data})
			a.output = "json"
			_ = a.inspect(c.text, keys, c.now)
			for _, said := range []string{out.String(), data.String()} {
				if mac := c.text.Reveal()[len(c.text)-40:]; strings.Contains(said, mac) || strings.ContainsRune(said, '\x1b') {
					t.Errorf("it shows the MAC, or steers the terminal: %s", said)
				}
			}
		})
	}
}

func TestTicketInspectOfWhatIsNone(t *testing.T) {
	i := newInspected(t)
	text := i.mint(t, "host-7")
	for name, try := range map[string]func(a *app) error{
		"nothing":          func(a *app) error { return a.inspect("", "", noon) },
		"half a ticket":    func(a *app) error { return a.inspect(text[:50], "", noon) },
		"keys that are no": func(a *app) error { return a.inspect(text, filepath.Join(i.dir, "garbage"), noon) },
		"no keys":          func(a *app) error { return a.inspect(text, filepath.Join(i.dir, "none"), noon) },
	} {
		var out bytes.Buffer
		err := try(newApp(Options{Stdout: &out}))
		var failure *Failure
		if !errors.As(err, &failure) || failure.Try == "" || out.Len() > 0 || strings.Contains(err.Error(), text.Reveal()[10:40]) {
			t.Errorf("%s: %v; %s", name, err, out.String())
		}
	}
}
