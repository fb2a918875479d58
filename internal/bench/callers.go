package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// callers send what a client sends, over connections that stay open, and read just enough of
// an answer to count its yeses: they share the machine with what they measure, so they are
// written by hand and cost little.
type callers struct {
	AdmitOptions
	addresses []string
	next      atomic.Int64 // names the keys
	done      atomic.Int64 // admissions, for whoever watches
}

func newCallers(o AdmitOptions, addresses []string) *callers {
	return &callers{AdmitOptions: o, addresses: addresses}
}

// tally is what the callers saw.
type tally struct {
	admissions, errors int64
	first              string
	took               time.Duration
	times              *hdrhistogram.Histogram // in microseconds
}

func newTally() *tally {
	return &tally{times: hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)}
}

func (t *tally) add(o *tally) {
	t.admissions, t.errors = t.admissions+o.admissions, t.errors+o.errors
	if t.first == "" {
		t.first = o.first
	}
	t.times.Merge(o.times)
}

// run has all callers ask for a while.
func (x *callers) run(ctx context.Context, lasts time.Duration, what string) (*tally, error) {
	bounded, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	all := newTally()
	var mu sync.Mutex // guards all and failed
	var failed error
	var wg sync.WaitGroup
	began := time.Now()
	for i := range x.Callers {
		wg.Go(func() {
			own := newTally()
			err := x.call(bounded, i, own)
			mu.Lock()
			defer mu.Unlock()
			all.add(own)
			failed = errors.Join(failed, err)
		})
	}
	wg.Go(func() { x.watch(bounded, what, began, lasts) })
	wg.Wait()
	all.took = time.Since(began)
	return all, failed
}

// watch says on a terminal how far it is.
func (x *callers) watch(ctx context.Context, what string, began time.Time, lasts time.Duration) {
	if x.Progress == nil {
		return
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	before := x.done.Load()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprint(x.Progress, "\r\033[K")
			return
		case <-tick.C:
			fmt.Fprintf(x.Progress, "\r%s: %.0f of %.0f s, %d admissions\033[K", what, time.Since(began).Seconds(), lasts.Seconds(), x.done.Load()-before)
		}
	}
}

// call is one caller: its connection, and one request after the other.
func (x *callers) call(ctx context.Context, i int, t *tally) error {
	conn, err := net.Dial("tcp", x.addresses[i%len(x.addresses)])
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	var request, body, answer []byte
	due, every := time.Now(), time.Duration(0)
	if x.Rate > 0 {
		every = time.Second * time.Duration(x.Callers*x.Batch) / time.Duration(x.Rate)
		due = due.Add(every * time.Duration(i) / time.Duration(x.Callers))
	}
	for ctx.Err() == nil {
		if every > 0 {
			if !sleepUntil(ctx, due) {
				break
			}
		} else {
			due = time.Now()
		}
		body = x.body(body[:0])
		request = x.request(request[:0], body)
		if _, err := conn.Write(request); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		status, got, err := readAnswer(in, answer)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		answer = got
		_ = t.times.RecordValue(time.Since(due).Microseconds()) // beyond a minute it is lost
		x.count(t, status, answer)
		due = due.Add(every)
	}
	return nil
}

func sleepUntil(ctx context.Context, due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (x *callers) body(b []byte) []byte {
	one := func() {
		b = append(b, `{"key":"bench-`...)
		b = strconv.AppendInt(b, x.next.Add(1), 10)
		b = append(b, `","class":"bench"}`...)
	}
	if x.Mode == OneByOne {
		one()
		return b
	}
	b = append(b, `{"admissions":[`...)
	for i := range x.Batch {
		if i > 0 {
			b = append(b, ',')
		}
		one()
	}
	return append(b, "]}"...)
}

func (x *callers) request(b, body []byte) []byte {
	path := "/v1/admissions"
	if x.Mode == InBatches {
		path += ":batch"
	}
	b = append(b, "POST "+path+" HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "+benchToken+"\r\nContent-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n\r\n"...)
	return append(b, body...)
}

// readAnswer reads one answer that says its length, as ours do.
func readAnswer(in *bufio.Reader, body []byte) (status int, _ []byte, err error) {
	length := -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, body, err
		}
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case first && len(line) >= 12:
			status, _ = strconv.Atoi(string(line[9:12]))
		case len(line) == 0:
			if length < 0 {
				return status, body, errors.New("an answer without its length")
			}
			body = append(body[:0], make([]byte, length)...)
			_, err := io.ReadFull(in, body)
			return status, body, err
		case bytes.EqualFold(name, []byte("Content-Length")):
			length, _ = strconv.Atoi(string(value))
		}
	}
}

var created = []byte(`"status":201`)

// count takes an answer in.
func (x *callers) count(t *tally, status int, body []byte) {
	yes := int64(0)
	switch {
	case x.Mode == OneByOne && status == 201:
		yes = 1
	case x.Mode == InBatches && status == 200:
		yes = int64(bytes.Count(body, created))
	}
	t.admissions += yes
	x.done.Add(yes)
	if no := int64(x.Batch) - yes; no > 0 {
		t.errors += no
		if t.first == "" {
			t.first = fmt.Sprintf("%d %s", status, body[:min(len(body), 300)])
		}
	}
}
