package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// What secrets of hosts begin with, so that whoever finds one knows what it is.
const (
	joinTokenPrefix  = "plj_"
	credentialPrefix = "plh_"
)

// The contract's bounds.
const (
	longestEndpoint  = 255
	longestVersion   = 128
	shortestJoin     = time.Minute
	longestJoin      = 30 * 24 * time.Hour
	defaultJoin      = time.Hour
	longestJoinToken = 128
)

// JoinHost is POST /v1/hosts:join: a host's first word, under a join token.
func (g *Gateway) JoinHost(ctx context.Context, q api.HostJoinRequest) (api.HostJoined, error) {
	switch {
	case !isName(q.Host):
		return api.HostJoined{}, api.Refuse(api.InvalidRequest, "host: write 1 to 128 of A-Z a-z 0-9 . _ : -")
	case q.JoinToken == "" || len(q.JoinToken) > longestJoinToken:
		return api.HostJoined{}, api.Refuse(api.InvalidRequest, "join_token: it is none that was given out")
	}
	if err := checkEndpoint(q.Endpoint); err != nil {
		return api.HostJoined{}, err
	}
	credential := credentialPrefix + rand.Text()
	entry, err := g.Store.Join(ctx, registry.Join{
		Token: sha256.Sum256([]byte(q.JoinToken)), Host: q.Host, Endpoint: q.Endpoint, Credential: sha256.Sum256([]byte(credential)),
	})
	if g.failed(err, "host", q.Host) {
		return api.HostJoined{}, api.Refuse(api.Unavailable, "the store did not answer; join again, and with another token when this one was used up by it")
	}
	if entry != registry.Entered {
		return api.HostJoined{}, joinRefused(entry, q.Host)
	}
	g.Log.Info("a host joined", "host", q.Host, "endpoint", q.Endpoint)
	g.lookAtHosts()
	return api.HostJoined{Host: q.Host, Credential: credential}, nil
}

// joinRefused tells nobody whose token a wrong one is.
func joinRefused(e registry.Entry, host string) error {
	text := map[registry.Entry]string{
		registry.NoToken:   "there is no such token; it may have been revoked",
		registry.TokenOver: "its time is over",
		registry.TokenUsed: "it was used already; if the answer was lost, make one with --host " + host,
		registry.OtherHost: "it is bound to another host",
		registry.KnownHost: "host " + host + " is registered; bury it first, or make a token with --host " + host + " to give it a new credential",
	}[e]
	return api.Refuse(api.JoinRejected, "join_token: %s", text)
}

func checkEndpoint(s string) error {
	fault := ""
	_, rest, found := strings.Cut(s, "://")
	if !found {
		rest = s
	}
	switch name, port, err := net.SplitHostPort(strings.TrimSuffix(rest, "/")); {
	case len(s) > longestEndpoint:
		fault = "it is longer than 255"
	case !plainText(s):
		fault = "it has a character that no address has"
	case err != nil || name == "" || port == "" || port == "0":
		fault = "write host:port, as replicas reach the agent"
	}
	if fault != "" {
		return api.Refuse(api.InvalidRequest, "endpoint: %s", fault)
	}
	return nil
}

func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) })
}

// Enrolled is what a registration answers.
type Enrolled struct {
	Host     registry.Host
	Keys     ticket.AudienceKeys
	Replicas []string // addresses of their API
}

// RegisterHost is POST /v1/hosts/{id}/register, under the bearer token of that host.
func (g *Gateway) RegisterHost(ctx context.Context, id string, credential [32]byte, q api.HostRegistration) (Enrolled, error) {
	switch {
	case len(q.Version) > longestVersion || !plainText(q.Version):
		return Enrolled{}, api.Refuse(api.InvalidRequest, "version: write at most %d characters", longestVersion)
	case q.Incarnation < 0:
		return Enrolled{}, api.Refuse(api.InvalidRequest, "incarnation: %d is below zero", q.Incarnation)
	}
	if err := checkEndpoint(q.Endpoint); err != nil {
		return Enrolled{}, err
	}
	h, entry, err := g.Store.RegisterHost(ctx, registry.Registration{
		Host: id, Credential: credential, Endpoint: q.Endpoint, Version: q.Version, Incarnation: q.Incarnation,
	})
	switch {
	case g.failed(err, "host", id):
		return Enrolled{}, api.Refuse(api.Unavailable, "the store did not answer; register again")
	case entry == registry.IsBuried:
		return Enrolled{}, api.Refuse(api.HostIsBuried, "host %s was buried: nothing that it holds is believed to run", id)
	case entry != registry.Entered:
		return Enrolled{}, api.Refuse(api.Unauthenticated, "the bearer token is not the credential of host %s", id)
	}
	g.lookAtHosts()
	return g.enrolled(ctx, h)
}

func (g *Gateway) enrolled(ctx context.Context, h registry.Host) (out Enrolled, err error) {
	out.Host = h
	if out.Keys, err = g.audience(h.ID); err != nil {
		return out, err
	}
	replicas, err := g.Store.Replicas(ctx)
	if err != nil {
		g.unread(err)
		return out, api.Refuse(api.Unavailable, "the store could not be read; register again")
	}
	for _, r := range replicas {
		out.Replicas = append(out.Replicas, r.Address)
	}
	return out, nil
}

// IssueJoin is POST /v1/join-tokens.
func (g *Gateway) IssueJoin(ctx context.Context, who *config.Consumer, q api.JoinTokenRequest) (api.JoinTokenMade, error) {
	lasts := defaultJoin
	if q.ForMS != nil {
		if *q.ForMS < shortestJoin.Milliseconds() || *q.ForMS > longestJoin.Milliseconds() {
			return api.JoinTokenMade{}, api.Refuse(api.InvalidRequest, "for_ms: %d is not between %d and %d", *q.ForMS, shortestJoin.Milliseconds(), longestJoin.Milliseconds())
		}
		lasts = time.Duration(*q.ForMS) * time.Millisecond
	}
	if q.Host != "" && !isName(q.Host) {
		return api.JoinTokenMade{}, api.Refuse(api.InvalidRequest, "host: write 1 to 128 of A-Z a-z 0-9 . _ : -")
	}
	text := joinTokenPrefix + rand.Text()
	t, err := g.Store.IssueJoin(ctx, registry.Token{ID: newID("join"), Digest: sha256.Sum256([]byte(text)), Host: q.Host, By: who.Name}, lasts)
	if g.failed(err, "call", "issue a join token") {
		return api.JoinTokenMade{}, g.Refused(api.Refuse(api.Unavailable, "the store did not answer; make another one"), who)
	}
	return api.JoinTokenMade{JoinToken: text, Token: showJoin(t)}, nil
}

// JoinTokens is GET /v1/join-tokens.
func (g *Gateway) JoinTokens(ctx context.Context, who *config.Consumer) (api.JoinTokenList, error) {
	tokens, err := g.Store.JoinTokens(ctx)
	if err != nil {
		return api.JoinTokenList{}, g.unreadable(err, who)
	}
	out := api.JoinTokenList{Tokens: make([]api.JoinToken, 0, len(tokens))}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, showJoin(t))
	}
	return out, nil
}

// RevokeJoin is DELETE /v1/join-tokens/{id}.
func (g *Gateway) RevokeJoin(ctx context.Context, who *config.Consumer, id string) (api.JoinToken, error) {
	t, ok, err := g.Store.RevokeJoin(ctx, id, who.Name)
	switch {
	case g.failed(err, "call", "revoke a join token"):
		return api.JoinToken{}, g.Refused(api.Refuse(api.Unavailable, "the store did not answer; revoke it again"), who)
	case !ok:
		return api.JoinToken{}, g.Refused(api.Refuse(api.NotFound, "no unused join token has the id %q; it may have been used, or revoked", id), who)
	}
	return showJoin(t), nil
}

func showJoin(t registry.Token) api.JoinToken {
	return api.JoinToken{
		ID: t.ID, Host: t.Host, CreatedBy: t.By, CreatedAt: t.CreatedAt.Wall(), ExpiresAt: t.ExpiresAt.Wall(),
		UsedAt: wireTime(t.UsedAt), UsedBy: t.UsedBy,
	}
}

// ChangeHost is POST /v1/hosts/{id}/cordon, uncordon, drain and bury.
func (g *Gateway) ChangeHost(ctx context.Context, who *config.Consumer, id string, deed registry.Deed, reason string) (api.HostChange, error) {
	if reason != "" || deed == registry.Drain || deed == registry.Bury {
		if err := checkReason(reason); err != nil {
			return api.HostChange{}, err
		}
	}
	if deed == registry.Bury {
		if err := g.mayBury(ctx, who, id); err != nil {
			return api.HostChange{}, err
		}
	}
	before, err := g.heldBy(ctx, id)
	if err != nil {
		return api.HostChange{}, g.unreadable(err, who)
	}
	c := registry.Change{Host: id, Deed: deed, By: who.Name, Reason: reason, Silent: g.silentAfter()}
	was, v, err := g.Store.SetHostState(ctx, c)
	if g.failed(err, "host", id) {
		return api.HostChange{}, g.Refused(api.Refuse(api.Unavailable, "the store did not answer; say it again, which changes nothing if it was written"), who)
	}
	if err := changeRefused(&c, was, v, len(before)); err != nil {
		return api.HostChange{}, g.Refused(err, who)
	}
	return g.hostChanged(ctx, who, &c, was, before)
}

// changeRefused says why a deed is not done; nil when it is.
func changeRefused(c *registry.Change, was registry.Host, v registry.Verdict, held int) *api.Refusal {
	switch v {
	case registry.Unknown:
		return api.Refuse(api.NotFound, "no host %s is registered", c.Host)
	case registry.Illegal:
		return api.Refuse(api.HostStateConflict, "host %s is %s, and is not %sed from there; its state allows: %s", c.Host, was.State, c.Deed, was.State.Legal())
	case registry.Alive:
		r := api.Refuse(api.HostStateConflict, "host %s is %s, was heard within %s and holds %d admissions; while it is heard, only a drained and empty host is buried", c.Host, was.State, c.Silent, held)
		r.Remedy = "plimsoll host drain " + c.Host + " --reason TEXT --wait, then bury it; or see that the machine is off, and wait until it is silent"
		return r
	case registry.Changed, registry.Same:
	}
	return nil
}

// mayBury asks a host that can be heard what it holds: not all of it has to be in the store.
func (g *Gateway) mayBury(ctx context.Context, who *config.Consumer, id string) error {
	link, _, silent := g.link(id)
	if silent {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	held, err := link.Holding(ctx)
	if err != nil {
		return nil // the store knows when it was heard
	}
	if n := len(held.Reserved) + len(held.Sandboxes); n > 0 {
		r := api.Refuse(api.HostStateConflict, "host %s is heard, and holds %d reservations and %d sandboxes", id, len(held.Reserved), len(held.Sandboxes))
		r.Remedy = "plimsoll host drain " + id + " --reason TEXT --wait, then bury it"
		return g.Refused(r, who)
	}
	return nil
}

// heldBy lists what the store has on a host.
func (g *Gateway) heldBy(ctx context.Context, id string) ([]pool.Row, error) {
	return g.Store.List(ctx, Filter{Host: id, States: []pool.State{pool.Admitted, pool.Running, pool.Releasing}})
}

// hostChanged has the change take effect here at once, and tells the host.
func (g *Gateway) hostChanged(ctx context.Context, who *config.Consumer, c *registry.Change, was registry.Host, before []pool.Row) (api.HostChange, error) {
	to, _ := was.State.After(c.Deed)
	out := api.HostChange{ID: c.Host, State: api.HostState(to), Was: api.HostState(was.State)}
	if err := g.readRegistry(ctx); err != nil {
		return out, g.unreadable(err, who)
	}
	if c.Deed == registry.Bury {
		return out, g.buried(ctx, who, before, &out)
	}
	if !g.toldIntake(ctx, c.Host) {
		out.Warning = "the host could not be told yet; every replica keeps to it, and the host is told when it is next heard"
	}
	rows, err := g.heldBy(ctx, c.Host)
	if err != nil {
		return out, g.unreadable(err, who)
	}
	countHeld(&out, rows)
	if link, _, _ := g.link(c.Host); link != nil {
		addHeld(ctx, link, &out)
	}
	g.wakes.wake()
	return out, nil
}

// addHeld adds what only the host itself knows of: not all has to be in the store.
func addHeld(ctx context.Context, link Link, out *api.HostChange) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if held, err := link.Holding(ctx); err == nil {
		out.Unbooted = max(out.Unbooted, int64(len(held.Reserved)))
		out.Running = max(out.Running, int64(len(held.Sandboxes))-out.Releasing)
	}
}

func countHeld(out *api.HostChange, rows []pool.Row) {
	for _, r := range rows {
		switch r.State {
		case pool.Admitted:
			out.Unbooted++
		case pool.Releasing:
			out.Releasing++
		default:
			out.Running++
		}
	}
}

// buried ends what the store has on a host that was buried. What is left of it when this
// replica dies meanwhile is ended by the next sweep of any.
func (g *Gateway) buried(ctx context.Context, who *config.Consumer, before []pool.Row, out *api.HostChange) error {
	changed, err := g.Store.Sweep(ctx)
	if g.failed(err, "host", out.ID) {
		return g.Refused(api.Refuse(api.Unavailable, "host %s is buried, and what it held is ended by the next sweep; the store did not answer", out.ID), who)
	}
	was := map[string]bool{}
	for _, r := range before {
		was[r.ID] = true
	}
	for _, r := range changed {
		if was[r.ID] && r.State == pool.Lost {
			out.Lost++
		}
	}
	g.Log.Warn("a host was buried", "host", out.ID, "by", who.Name, "lost", out.Lost)
	g.wakes.wake()
	return nil
}
