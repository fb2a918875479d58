// Package stage is where SDKs are tried: a real replica over a real store, with two addresses in
// front of it that lose, delay and garble as a scenario says. It begins each scenario anew, keeps its own
// log of what it was asked, and judges by that log what an SDK says that it saw.
//
// A runner, in whatever language, posts {"name": …} to control's /begin, does what the scenario says, and
// posts what it saw to /check, which answers with the faults that the stage found.
package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/client"
)

// Note says how a stage is reached: the line that `go run ./sdk/stage` prints.
type Note struct {
	Addresses    []string          `json:"addresses"`
	Control      string            `json:"control"`
	Tokens       map[string]string `json:"tokens"` // caller, other, substrate, operator
	Audience     string            `json:"audience"`
	AudienceKeys json.RawMessage   `json:"audience_keys"` // the file that plimsoll keyring audience writes
	Class        string            `json:"class"`
	Pool         string            `json:"pool"`
}

// Stage is one. One scenario is played at a time.
type Stage struct {
	note    Note
	dir     string
	replica *replica
	fronts  [2]*front
	control *http.Server
	clients map[string]*client.Client // whose token -> straight to the replica

	mu    sync.Mutex // guards scene
	scene *scene     // the scenario that is played; nil before the first
}

// Start brings a stage up.
func Start(ctx context.Context) (s *Stage, err error) {
	s = &Stage{clients: map[string]*client.Client{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "plimsoll-stage"); err != nil {
		return s, err
	}
	if s.replica, err = startReplica(ctx, s.dir); err != nil {
		return s, err
	}
	for i := range s.fronts {
		if s.fronts[i], err = newFront(s, i); err != nil {
			return s, err
		}
		s.note.Addresses = append(s.note.Addresses, s.fronts[i].url())
	}
	if err := s.serveControl(); err != nil {
		return s, err
	}
	return s, s.introduce(ctx)
}

// introduce makes the clients of everybody, and completes the note.
func (s *Stage) introduce(ctx context.Context) error {
	s.note.Tokens, s.note.Class, s.note.Pool, s.note.Audience = map[string]string{}, className, poolName, audience
	for _, who := range everybody {
		s.note.Tokens[who.name] = who.token()
		c, err := client.New(s.replica.url, who.token())
		if err != nil {
			return err
		}
		s.clients[who.name] = c
	}
	keys, err := s.clients["root"].AudienceKeys(ctx, audience)
	if err != nil {
		return err
	}
	delete(s.note.Tokens, "root")
	s.note.AudienceKeys, err = keys.EncodeFile()
	return err
}

// Note says how it is reached.
func (s *Stage) Note() Note { return s.note }

// Close ends it, and removes what it wrote.
func (s *Stage) Close() error {
	s.leave()
	if s.control != nil {
		s.control.Close()
	}
	for _, f := range s.fronts {
		if f != nil {
			f.shut()
		}
	}
	var err error
	if s.replica != nil {
		err = s.replica.close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// playing is the scenario that is played.
func (s *Stage) playing() *scene {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scene
}

// leave ends what a scenario still does in the background.
func (s *Stage) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scene != nil {
		s.scene.end()
	}
	s.scene = nil
}

func (s *Stage) serveControl() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for runners: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /begin", told(s.begin))
	mux.HandleFunc("POST /check", told(s.check))
	s.control = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	s.note.Control = "http://" + listener.Addr().String()
	go s.control.Serve(listener)
	return nil
}

// told makes a handler of what answers a document with a document.
func told[Q, A any](answer func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a, err := answer(r.Context(), q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a) // the runner has gone, if it fails
	}
}
