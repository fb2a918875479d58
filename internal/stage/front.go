package stage

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// front is one address of the replica, with faults in it.
type front struct {
	stage *Stage
	at    int // which address it is
	addr  string
	http  *http.Client

	mu     sync.Mutex // guards server
	server *http.Server
}

func newFront(s *Stage, at int) (*front, error) {
	f := &front{stage: s, at: at, addr: "127.0.0.1:0", http: &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return f, f.open()
}

func (f *front) url() string { return "http://" + f.addr }

// open listens, again at the same address after it was shut.
func (f *front) open() error {
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		return fmt.Errorf("listen in front of the replica: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addr = listener.Addr().String()
	f.server = &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	go f.server.Serve(listener)
	return nil
}

// shut refuses connections, and drops those that there are.
func (f *front) shut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server != nil {
		f.server.Close()
		f.server = nil
	}
}

func (f *front) isShut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.server == nil
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it hung up
	}
	scene := f.stage.playing()
	if scene == nil {
		http.Error(w, "no scenario is played", http.StatusConflict)
		return
	}
	q := scene.take(f.at, r, body)
	switch q.fault.Do {
	case "reset":
		reset(w)
		return
	case "status":
		a := q.fault.reply()
		scene.answered(q, a)
		a.write(w)
		return
	case "garbage":
		a := reply{status: http.StatusOK, header: http.Header{"Content-Type": {"text/html"}}, body: []byte("<html>welcome to the portal</html>")}
		scene.answered(q, a)
		a.write(w)
		return
	}
	a, err := f.forward(r, body)
	if err != nil {
		reset(w)
		return
	}
	scene.bend(&a)
	f.hand(w, r, q, a)
}

// hand gives an answer of the replica back, or what a fault leaves of it.
func (f *front) hand(w http.ResponseWriter, r *http.Request, q *request, a reply) {
	scene := f.stage.playing()
	switch q.fault.Do {
	case "lose":
		reset(w)
		return
	case "truncate":
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		a.body = a.body[:len(a.body)/2]
		a.write(w)
		_ = http.NewResponseController(w).Flush() // it has gone, if that fails
		reset(w)
		return
	case "slow":
		select {
		case <-time.After(time.Duration(q.fault.MS) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	if scene != nil {
		scene.answered(q, a)
	}
	a.write(w)
}

// reply is an answer as a whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (a reply) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // it has gone, if that fails
}

// forward asks the replica. Who hangs up here hangs up there.
func (f *front) forward(r *http.Request, body []byte) (reply, error) {
	q, err := http.NewRequestWithContext(r.Context(), r.Method, f.stage.replica.url+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	q.Header = r.Header.Clone()
	q.Header.Del("Connection")
	resp, err := f.http.Do(q)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	h := resp.Header.Clone()
	h.Del("Content-Length")
	h.Del("Connection")
	return reply{resp.StatusCode, h, text}, err
}

// reset ends the connection without an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
