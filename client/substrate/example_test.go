package substrate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/substrate"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// containers is a class of containers that boots nothing without a ticket.
type containers struct {
	gate    *substrate.Gate
	running map[string]bool // by name
}

// ensure boots a container, unless it runs already.
func (c *containers) ensure(ctx context.Context, name, ticket string) error {
	if c.running[name] {
		return nil
	}
	admitted, err := c.gate.Redeem(ctx, ticket, name)
	if err != nil {
		return err
	}
	c.running[name] = true
	fmt.Printf("boot %s with %d MiB\n", name, admitted.MemoryMB)
	return nil
}

// A container class that refuses to boot without a ticket. What it holds is its own audience's
// key and the token of a consumer with the role substrate.
func Example() {
	keys, text, server := exampleReplica()
	defer server.Close()
	c, err := client.New(server.URL, "token-of-the-provider")
	if err != nil {
		fmt.Println(err)
		return
	}
	class := &containers{gate: substrate.New(c, keys), running: map[string]bool{}}
	for _, try := range []struct{ name, ticket string }{
		{"web-1", ""}, {"web-1", "plm1.made-up"}, {"web-1", text}, {"web-1", text}, {"web-2", text},
	} {
		if err := class.ensure(context.Background(), try.name, try.ticket); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// ticket rejected: missing
	// ticket rejected: malformed
	// boot web-1 with 512 MiB
	// ticket rejected: replayed: it was redeemed for instance web-1
}

// exampleReplica stands for a real one: it made one ticket, and lets it be redeemed once.
func exampleReplica() (keys ticket.AudienceKeys, text string, server *httptest.Server) {
	root, err := ticket.NewRoot("k1", ticket.Signing, []byte("no secret, for it stands in a test"))
	check(err)
	ring, err := ticket.NewKeyring(root)
	check(err)
	keys, err = ring.Audience(ticket.ForSubstrate("cloud"))
	check(err)
	minted, err := keys.Mint(&ticket.Claims{
		Consumer: "ci", Key: "run-7", Pool: "browser", Class: "chrome", Tenant: "ci", AdmissionID: "adm-1",
		Memory: 512 * gate.MiB, Epoch: 7, Issued: time.Now(), Expires: time.Now().Add(10 * time.Minute),
	})
	check(err)
	by := ""
	return keys, minted.Reveal(), httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q api.TicketRequest
		check(json.NewDecoder(r.Body).Decode(&q))
		if by != "" && by != q.Instance {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"code": "ticket_rejected", "reason": "replayed", "detail": "it was redeemed for instance %s"}`, by)
			return
		}
		by = q.Instance
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id": "adm-1", "epoch": 7, "memory_mb": 512}`)
	}))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
