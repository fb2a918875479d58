package up

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// enrolment is what a host's agent knows of the replicas, and they of it: its credential and
// its endpoint. It asks any replica that answers, one after the other.
type enrolment struct {
	host     string
	endpoint string
	version  string
	stated   []string // addresses of the file
	token    string   // file of the join token
	path     string   // of the credential
	http     *http.Client
	log      *slog.Logger
	known    credential
}

// credential is the file that a host keeps of its registration. Whoever reads it can say that
// the host listens elsewhere.
type credential struct {
	Host       string   `json:"host"`
	Credential string   `json:"credential"`
	Replicas   []string `json:"replicas"` // as it last heard
}

const credentialFile = "credential.json"

// How a registration is tried.
const (
	askReplicaWithin = 5 * time.Second
	firstPause       = 250 * time.Millisecond
	longestPause     = 15 * time.Second
	sayEvery         = 30 * time.Second
)

func newEnrolment(local *config.Local, version, endpoint string, identity *tls.Config, log *slog.Logger) (*enrolment, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = identity // nil: the system's authorities
	e := &enrolment{
		host: local.HostID(), endpoint: endpoint, version: version, stated: local.Agent.Replicas, token: local.Agent.JoinTokenFile,
		path: filepath.Join(local.DataDir, credentialFile), log: log,
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	data, err := os.ReadFile(e.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, nil
	case err != nil:
		return nil, fmt.Errorf("read the host's credential: %w; it must be readable by the user who runs the agent", err)
	}
	if err := json.Unmarshal(data, &e.known); err != nil {
		return nil, fmt.Errorf("read the host's credential: %s is damaged (%w); remove it, and join again with a new token", e.path, err)
	}
	if e.known.Host != e.host {
		e.known = credential{} // of a host that this machine was
	}
	return e, nil
}

// addresses are where a replica may be: those of the file, then those that were heard of.
func (e *enrolment) addresses() (all []string) {
	for _, a := range slices.Concat(e.stated, e.known.Replicas) {
		if !slices.Contains(all, a) && !config.InClear(a) {
			all = append(all, a)
		}
	}
	return all
}

// final is a no that the next replica would say, too: they share one store.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// once asks replicas until one has an answer: it joins first where the host has no credential.
func (e *enrolment) once(ctx context.Context, incarnation int64) (*api.HostRegistered, error) {
	if e.known.Credential == "" {
		if err := e.each(ctx, "", e.join); err != nil {
			return nil, err
		}
	}
	var got *api.HostRegistered
	err := e.each(ctx, e.known.Credential, func(ctx context.Context, c *client.Client) (err error) {
		got, err = c.RegisterHost(ctx, e.host, api.HostRegistration{Endpoint: e.endpoint, Version: e.version, Incarnation: incarnation})
		return err
	})
	if errors.Is(err, api.HostIsBuried) || errors.Is(err, api.Unauthenticated) {
		return nil, e.anew(err)
	}
	if err == nil && !slices.Equal(got.Replicas, e.known.Replicas) {
		e.known.Replicas = got.Replicas
		if unwritten := e.keep(); unwritten != nil {
			e.log.Warn("the replicas' addresses were not noted", "err", unwritten)
		}
	}
	return got, err
}

// anew lets the next try join again, if there is a token for it.
func (e *enrolment) anew(why error) error {
	if _, err := e.joinToken(); err == nil {
		e.known.Credential = ""
		return fmt.Errorf("%w; it joins again with the token in %s", why, e.token)
	}
	return final{&cli.Failure{
		Status: cli.ExitNotAllowed, Err: errors.New(why.Error()), // whose own remedy is for callers
		Try: fmt.Sprintf("plimsoll host token create --host %s --out FILE, and name that file with agent.join_token_file", e.host),
	}}
}

// each asks one replica after the other until one answers.
func (e *enrolment) each(ctx context.Context, token string, ask func(context.Context, *client.Client) error) error {
	var errs []error
	for _, address := range e.addresses() {
		c, err := client.New(address, token, client.WithHTTPClient(e.http), client.WithUserAgent("plimsoll-agent/"+e.version))
		if err == nil {
			bounded, cancel := context.WithTimeout(ctx, askReplicaWithin)
			err = ask(bounded, c)
			cancel()
		}
		var away *client.Unreachable
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.As(err, &away) && !errors.Is(err, api.Unavailable) && !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (e *enrolment) join(ctx context.Context, c *client.Client) error {
	token, err := e.joinToken()
	if err != nil {
		return final{err}
	}
	joined, err := c.JoinHost(ctx, api.HostJoinRequest{Host: e.host, Endpoint: e.endpoint, JoinToken: token})
	if errors.Is(err, api.JoinRejected) || errors.Is(err, api.InvalidRequest) {
		return final{err}
	}
	if err != nil {
		return err
	}
	e.known.Host, e.known.Credential = e.host, joined.Credential
	e.log.Info("the host has joined", "host", e.host, "endpoint", e.endpoint)
	return e.keep()
}

func (e *enrolment) joinToken() (string, error) {
	if e.token == "" {
		return "", e.cannotJoin(fmt.Errorf("host %s has no credential yet, and neither agent.join_token_file nor PLIMSOLL_AGENT_JOIN_TOKEN_FILE names a join token's file", e.host), "FILE")
	}
	data, err := os.ReadFile(e.token)
	if err != nil {
		return "", e.cannotJoin(fmt.Errorf("agent.join_token_file: host %s has no credential yet, and its join token cannot be read: %w", e.host, err), e.token)
	}
	if token := strings.TrimSpace(string(data)); token != "" && len(token) <= 128 {
		return token, nil
	}
	return "", e.cannotJoin(fmt.Errorf("agent.join_token_file: %s holds no join token; it must hold the token and nothing else", e.token), "FILE")
}

// cannotJoin says how to get what is missing.
func (e *enrolment) cannotJoin(why error, file string) error {
	return &cli.Failure{
		Status: cli.ExitConfig, Err: why,
		Try: fmt.Sprintf("plimsoll host token create --host %s --out %s, where a replica runs", e.host, file),
	}
}

func (e *enrolment) keep() error {
	data, err := json.MarshalIndent(e.known, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(e.path, append(data, '\n'))
}

// until asks again and again until the host is registered. A no that will stay one is final
// for a host that never was; one that was goes on with what it remembers.
func (e *enrolment) until(ctx context.Context, incarnation int64) (*api.HostRegistered, error) {
	var said time.Time
	last := ""
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		got, err := e.once(ctx, incarnation)
		switch {
		case err == nil:
			if last != "" {
				e.log.Info("the host is registered")
			}
			return got, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case incarnation == 0 && errors.As(err, new(final)):
			return nil, err
		case err.Error() != last || time.Since(said) >= sayEvery:
			e.log.Warn("the host is not registered; it is tried again, and what was promised runs and boots meanwhile", "err", err)
			said, last = time.Now(), err.Error()
		}
		wait(ctx, pause/2+rand.N(pause/2))
	}
}
