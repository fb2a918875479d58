package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// TicketOptions are a run's settings; the zero value takes every default.
type TicketOptions struct {
	Ops int // timed mints, and as many verifications; 400,000
}

// TicketResult is what plimsoll bench ticket prints.
type TicketResult struct {
	MintP50     int64   `json:"mint_p50_ns"`
	MintP99     int64   `json:"mint_p99_ns"`
	VerifyP50   int64   `json:"verify_p50_ns"`
	VerifyP99   int64   `json:"verify_p99_ns"`
	AllocsPerOp float64 `json:"allocs_per_op"` // of a mint and a verification together
	TextBytes   int     `json:"text_bytes"`
}

// Ticket measures minting and verifying an everyday ticket.
func Ticket(o TicketOptions) (TicketResult, error) {
	if o.Ops <= 0 {
		o.Ops = 400_000
	}
	host, err := benchKeys()
	if err != nil {
		return TicketResult{}, err
	}
	c := benchClaims()
	buf, err := host.AppendMint(make([]byte, 0, ticket.MaxText), &c)
	if err != nil {
		return TicketResult{}, fmt.Errorf("bench: %w", err)
	}
	text, view := ticket.Text(buf), new(ticket.View)
	expect := ticket.Expect{Consumer: c.Consumer, Key: c.Key, AdmissionID: c.AdmissionID, Epoch: c.Epoch}
	refused := ticket.OK
	mint := measure(o.Ops, Batch, func() { buf, err = host.AppendMint(buf[:0], &c) })
	verify := measure(o.Ops, Batch, func() { refused = max(refused, host.VerifyView(view, text, &expect)) })
	if err != nil || refused != ticket.OK {
		return TicketResult{}, fmt.Errorf("bench: mint: %v, verify: %w", err, refused)
	}
	return TicketResult{
		MintP50: mint.P50, MintP99: mint.P99, VerifyP50: verify.P50, VerifyP99: verify.P99,
		AllocsPerOp: mint.allocs + verify.allocs, TextBytes: len(text),
	}, nil
}

func benchKeys() (ticket.AudienceKeys, error) {
	secret := make([]byte, ticket.MinSecret)
	for i := range secret {
		secret[i] = byte(i)
	}
	root, err := ticket.NewRoot("2026-09", ticket.Signing, secret)
	if err != nil {
		return ticket.AudienceKeys{}, fmt.Errorf("bench: %w", err)
	}
	ring, err := ticket.NewKeyring(root)
	if err != nil {
		return ticket.AudienceKeys{}, fmt.Errorf("bench: %w", err)
	}
	return ring.Audience("agent-3f2a")
}

func benchClaims() ticket.Claims {
	noon := time.Date(2026, 9, 8, 12, 0, 0, 0, time.UTC)
	return ticket.Claims{
		Consumer: "flare-dispatch", Key: "run-4711.step-12", Pool: "browser", Class: "ci-browser",
		Tenant: "acme", AdmissionID: "adm-01J7ZK4Q2M8V", Memory: 4 * gate.GiB, Epoch: 42, Issued: noon, Expires: noon.Add(time.Minute),
	}
}

// Print writes the result as a table for people.
func (r TicketResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "a ticket of %d bytes\tp50\tp99\t\n", r.TextBytes)
	fmt.Fprintf(t, "mint\t%d ns\t%d ns\t\n", r.MintP50, r.MintP99)
	fmt.Fprintf(t, "verify\t%d ns\t%d ns\t\n", r.VerifyP50, r.VerifyP99)
	fmt.Fprintf(t, "allocations\t%.2f\t\t\n", r.AllocsPerOp)
	return t.Flush()
}
