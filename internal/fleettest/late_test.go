package fleettest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// TestReleaseThatComesLate: a replica stands still with a release in its hands, while another
// one releases the key and admits it anew. When it goes on, the release ends nothing: the
// first time because it names its epoch, the other times because the row that it had read is
// no longer the same. A sandbox whose slot was given away would run over the cap.
func TestReleaseThatComesLate(t *testing.T) {
	t.Parallel()
	at := schemaOf(t)
	slow, quick := newReplica(t, "server", at+"_slow"), newReplica(t, "server", at) // the name comes last
	asks := watchedAs(t, at+"_slow")
	for _, r := range []*replica{slow, quick} {
		r.start()
	}
	for _, r := range []*replica{slow, quick} {
		r.becomesReady()
	}
	c := newFront(t, []*replica{quick}).client("ci")
	statuses := map[int]int{}
	for i := range 8 {
		key := fmt.Sprint("k", i)
		first := admitted(t, c, key)
		epoch, readFirst := fmt.Sprint("?epoch=", first.Epoch), i%4 > 0
		if readFirst {
			epoch = ""
		} else {
			slow.stop()
		}
		asks.begin()
		answer := deleting(t, slow, key+epoch)
		if readFirst { // from there on it may have got anywhere, all the way, too
			asks.wait(answer)
			time.Sleep(time.Duration(i*120) * time.Microsecond)
			slow.stop()
			answer.hangUp()
		} else {
			time.Sleep(20 * time.Millisecond)
		}
		// Stopped within a transaction it holds the pool's lock, for 10 s at most.
		if _, err := c.Release(within(t, 3*hung), key); err != nil {
			t.Fatal(err)
		}
		second := admitted(t, c, key)
		slow.goOn()
		if status := <-answer.status; !readFirst {
			statuses[status]++ // of the others nobody is there to hear
		}
		becomes(t, "the slow one is at rest", hung, func() string {
			if slow.ready() != http.StatusOK {
				return "it is not ready"
			}
			return ""
		})
		if a, err := c.Get(within(t, hung), key); err != nil || a.State != api.AdmissionStateAdmitted || a.Epoch != second.Epoch {
			t.Errorf("%d: it was admitted anew at epoch %d, and is %+v (%v)", i, second.Epoch, a, err)
		}
		if _, err := c.ReleaseAdmission(within(t, hung), second); err != nil {
			t.Error(err)
		}
	}
	// The slow one's connection to the store may have been cut while it stood still.
	if statuses[http.StatusNotFound]+statuses[http.StatusServiceUnavailable] != 2 {
		t.Errorf("those that name their epoch were answered %v, and it is over", statuses)
	}
}

func admitted(t *testing.T, c *client.Client, key string) *api.Admission {
	t.Helper()
	// What the slow one asked for may get the pool's lock when it stands still already.
	a, err := c.Admit(within(t, 3*hung), api.AdmissionRequest{Key: key, Class: "probe"}, client.Options{Wait: 2 * hung})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// answer is one that is still to come.
type answer struct {
	status chan int // 0: none came
	hangUp func()
}

// deleting asks on a connection of its own. To hang up resets that: what the replica has not
// read by then it never will. An asker that closes politely leaves a request that is read
// later, and then rightly releases what it finds.
func deleting(t *testing.T, r *replica, what string) answer {
	t.Helper()
	dialled := make(chan net.Conn, 1)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, at string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, at)
		if err == nil {
			dialled <- c
		}
		return c, err
	}}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+r.address()+"/v1/admissions/"+what, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+tokenOf("ci"))
	a := answer{status: make(chan int, 1)}
	go func() {
		resp, err := transport.RoundTrip(q)
		if err != nil {
			a.status <- 0
			return
		}
		_ = resp.Body.Close()
		a.status <- resp.StatusCode
	}()
	a.hangUp = func() {
		c := <-dialled
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	return a
}

// watch is a look at what a replica asks of the store.
type watch struct {
	t    *testing.T
	conn *pgx.Conn
	from time.Time // by the store's clock
}

// watchedAs looks at whoever has the application name of an address.
func watchedAs(t *testing.T, at string) *watch {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return &watch{t: t, conn: conn}
}

func (w *watch) begin() {
	w.t.Helper()
	if err := w.conn.QueryRow(within(w.t, hung), "SELECT clock_timestamp()").Scan(&w.from); err != nil {
		w.t.Fatal(err)
	}
}

// wait ends when the replica has asked for the rows of a key or an id since, which a release begins
// with, or has answered already. What it asks of the store all the time tells nothing: a release that
// it has in its hands and has read no row for would rightly end what it finds later.
func (w *watch) wait(release answer) {
	w.t.Helper()
	const asked = `SELECT count(*) > 0 FROM pg_stat_activity
		WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid() AND query_start >= $1
		AND query ~ 'WHERE a\.(consumer|id) = wanted\.value'`
	for began := time.Now(); len(release.status) == 0; { // without a pause: the whole release takes a few milliseconds
		var yes bool
		if err := w.conn.QueryRow(within(w.t, hung), asked, w.from).Scan(&yes); err != nil {
			w.t.Fatal(err)
		}
		if yes {
			return
		}
		if time.Since(began) > hung {
			w.t.Fatal("the slow one asked nothing of the store")
		}
	}
}
