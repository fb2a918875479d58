package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/ticket"
)

func (a *app) ticketCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ticket",
		Short:   "Look into a ticket",
		Example: "  plimsoll ticket inspect ticket.txt",
	}
	return group(cmd, a.ticketInspect())
}

func (a *app) ticketInspect() *cobra.Command {
	keys := ""
	cmd := &cobra.Command{
		Use:   "inspect [FILE]",
		Short: "Show what a ticket says, and what a verifier would say of it",
		Long: `Shows what a ticket claims: its admission, audience, key and times, but never its MAC. The
ticket is read from a file or from standard input; on a command line every user of the
machine could read it, and boot with it.

Without keys nothing of it is proven. With --keys, the keys file of a replica, a host or a
substrate, it also says what that verifier would. Whether the admission is still good for a
boot (released, superseded, booted already) only the host or the server knows.`,
		Example: `  plimsoll ticket inspect ticket.txt
  plimsoll ticket inspect < ticket.txt
  plimsoll ticket inspect ticket.txt --keys /var/lib/plimsoll/keys.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if strings.HasPrefix(arg, ticket.Prefix) {
					return &Failure{
						ExitUsage, errors.New("that is a ticket: every user of this machine can read it on a command line, and your shell keeps it"),
						"plimsoll ticket inspect < FILE; and let this ticket lapse, or release its admission",
					}
				}
			}
			if len(args) > 1 {
				return mistake(cmd, "name one file, or give the ticket on standard input")
			}
			text, err := readTicket(cmd, args)
			if err != nil {
				return err
			}
			return a.inspect(text, keys, time.Now())
		},
	}
	cmd.Flags().StringVar(&keys, "keys", "", "a keys `file` to verify it with")
	_ = cmd.MarkFlagFilename("keys")
	return cmd
}

// readTicket reads no more than any ticket can be long.
func readTicket(cmd *cobra.Command, args []string) (ticket.Text, error) {
	in := cmd.InOrStdin()
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return "", &Failure{ExitUsage, fmt.Errorf("read the ticket: %w", err), "name a readable file, or give the ticket on standard input"}
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, 2*int64(ticket.MaxText)))
	if err != nil {
		return "", &Failure{ExitUsage, fmt.Errorf("read the ticket: %w", err), "name a readable file, or give the ticket on standard input"}
	}
	return ticket.Text(strings.TrimSpace(string(data))), nil
}

// inspection is what is shown of a ticket; it holds no MAC.
type inspection struct {
	AdmissionID string    `json:"admission_id"`
	Epoch       int64     `json:"epoch"`
	Consumer    string    `json:"consumer"`
	Key         string    `json:"key"`
	Tenant      string    `json:"tenant"`
	Pool        string    `json:"pool"`
	Class       string    `json:"class"`
	MemoryMB    int64     `json:"memory_mb"`
	Audience    string    `json:"audience"`
	Placement   string    `json:"placement"` // host or none
	KeyID       string    `json:"key_id"`
	IssuedAt    time.Time `json:"issued_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	Expired     bool      `json:"expired"` // by this machine's clock
	Verdict     string    `json:"verdict"` // unproven, ok, or why it is rejected

	why string // for people
}

func (a *app) inspect(text ticket.Text, keysFile string, now time.Time) error {
	claims, err := ticket.Inspect(text)
	if err != nil {
		return &Failure{ExitUsage, fmt.Errorf("it is no ticket: %w", err), "give the whole text, which begins with " + ticket.Prefix}
	}
	v := showClaims(claims, now)
	var rejected error
	if keysFile != "" {
		if rejected, err = v.verify(text, claims, keysFile, now); err != nil {
			return err
		}
	}
	if a.json() {
		err = writeJSON(a.stdout, v)
	} else {
		err = v.write(a.stdout, now)
	}
	if err == nil && rejected != nil {
		return &Failure{ExitNotAllowed, rejected, v.remedy()}
	}
	return err
}

func showClaims(c ticket.Claims, now time.Time) *inspection {
	v := &inspection{
		AdmissionID: c.AdmissionID, Epoch: c.Epoch, Consumer: c.Consumer, Key: c.Key, Tenant: c.Tenant,
		Pool: c.Pool, Class: c.Class, MemoryMB: c.Memory.CeilMiB(), Audience: c.Audience, Placement: "host",
		KeyID: c.KeyID, IssuedAt: c.Issued, ExpiresAt: c.Expires, Expired: now.After(c.Expires),
		Verdict: "unproven", why: "nothing of it was verified; --keys FILE does that",
	}
	if name, ok := ticket.SubstrateOf(c.Audience); ok {
		v.Audience, v.Placement = name, "none"
	}
	return v
}

// verify says what whoever holds the keys would say. Rejected is why not, err that nobody
// could say.
func (v *inspection) verify(text ticket.Text, c ticket.Claims, path string, now time.Time) (rejected, err error) {
	keys, err := readKeysFor(path, c.Audience)
	if err != nil {
		return nil, err
	}
	expect := ticket.Expect{Audience: keys.Audience()}
	v.why = "signed by " + c.KeyID + "; the host's ledger has the last word, and decides when it ends"
	if v.Placement == "none" {
		expect.Now = now
		v.why = "signed by " + c.KeyID + ", and in time; redeeming it has the last word"
	}
	if _, err := keys.Verify(text, expect); err != nil {
		var reason ticket.Reason
		errors.As(err, &reason)
		v.Verdict, v.why = reason.String(), rejections[reason]
		return err, nil
	}
	v.Verdict = "ok"
	return nil, nil
}

// rejections says what a verifier's word means.
var rejections = map[ticket.Reason]string{
	ticket.Forged:    "none of these keys made this MAC: it was altered, or its key is not known here",
	ticket.Expired:   "its time is over by this machine's clock",
	ticket.OtherHost: "these keys are another audience's: they cannot say anything else of it",
}

func (v *inspection) remedy() string {
	if v.Verdict == ticket.Expired.String() {
		return "the caller's heartbeat brings a fresh one while the admission lives"
	}
	return "is it the right keys file, and the right ticket?"
}

// readKeysFor reads either of the two keys files.
func readKeysFor(path, audience string) (ticket.AudienceKeys, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return ticket.AudienceKeys{}, &Failure{ExitUsage, fmt.Errorf("read the keys: %w", err), "name a keys file that you can read"}
	}
	ring, ringErr := ticket.ParseKeyring(data)
	if ringErr == nil {
		return ring.Audience(audience)
	}
	keys, err := ticket.ParseAudienceKeys(data)
	if err != nil {
		return keys, &Failure{ExitConfig, fmt.Errorf("%s is no keys file: %w", path, ringErr), "name a replica's keys file, or one that plimsoll keyring audience made"}
	}
	return keys, nil
}

func (v *inspection) write(w io.Writer, now time.Time) error {
	end := "in " + age(v.ExpiresAt.Sub(now))
	if v.Expired {
		end = age(now.Sub(v.ExpiresAt)) + " ago"
	}
	audience := "host " + v.Audience
	if v.Placement == "none" {
		audience = "substrate " + v.Audience
	}
	memory := "not said"
	if v.MemoryMB > 0 {
		memory = grouped(v.MemoryMB) + " MiB"
	}
	var b strings.Builder
	for _, line := range [][2]string{
		{"verdict", v.Verdict + ": " + v.why},
		{"admission", fmt.Sprintf("%s, epoch %d", v.AdmissionID, v.Epoch)},
		{"whose", fmt.Sprintf("consumer %s, key %s, tenant %s", v.Consumer, v.Key, dash(v.Tenant))},
		{"what", fmt.Sprintf("class %s of pool %s, memory %s", v.Class, v.Pool, memory)},
		{"for", audience},
		{"key id", v.KeyID},
		{"issued", ago(v.IssuedAt, now)},
		{"expires", clock(v.ExpiresAt) + " (" + end + ")"},
	} {
		fmt.Fprintf(&b, "%-10s %s\n", line[0], strings.ReplaceAll(plain(line[1]), "\n", " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
