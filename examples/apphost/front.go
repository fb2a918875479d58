package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

//go:embed status.html
var statusPage string

//go:embed waiting.html
var waitingText string

var waitingPage = template.Must(template.New("waiting").Parse(waitingText))

// ServeHTTP leads NAME.anything to the app of that name, and all else to the status page.
func (h *appHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, isApp := appName(r.Host)
	if a, ok := h.named[name]; ok {
		a.ServeHTTP(w, r)
		return
	}
	switch {
	case isApp:
		http.Error(w, "there is no app "+strconv.Quote(name), http.StatusNotFound)
	case r.URL.Path == "/apps.json":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		json.NewEncoder(w).Encode(h.overview(r.Context()))
	case r.URL.Path == "/":
		ownPage(w)
		w.Write([]byte(statusPage))
	default:
		http.NotFound(w, r)
	}
}

// appName is the first label of a host name that has more than one and is no address.
func appName(host string) (name string, isApp bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	name, rest, _ := strings.Cut(host, ".")
	return name, rest != "" && net.ParseIP(host) == nil
}

func ownPage(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
}

// ServeHTTP hands a request to the app, which is woken for it if need be.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hold := a.host.hold
	if isPerson(r) {
		hold = a.host.pageAfter
	}
	ctx, cancel := context.WithTimeout(r.Context(), hold)
	defer cancel()
	for try := 0; ; try++ {
		l, err := a.enter(ctx)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		heard := a.ask(l, w, r)
		a.leave()
		switch {
		case heard == nil:
			return
		case errors.Is(heard, errGone) || isSafe(r) && try < 2: // by whatever is there then
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, heard.Error(), http.StatusBadGateway)
			return
		}
	}
}

var (
	errGone = errors.New("nobody listens there any more")
	errLost = errors.New("the app ended before it answered; ask again if asking twice does no harm")
)

// ask hands a request to one boot of the app. After an error nothing was answered yet.
func (a *app) ask(l *live, w http.ResponseWriter, r *http.Request) error {
	if !answers(l.socket) {
		a.isGone(l)
		return errGone
	}
	var gone bool
	l.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), lost{}, &gone)))
	if gone {
		return errLost
	}
	return nil
}

// isSafe says whether a request may reach two boots of an app.
func isSafe(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength == 0
}

// isPerson says whether a request is a browser's for a page.
func isPerson(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// Wait is the body of a request whose app still waits.
type Wait struct {
	Code         api.Code `json:"code"`
	App          string   `json:"app"`
	State        State    `json:"state"`
	Place        *Place   `json:"place,omitempty"`
	RetryAfterMS int64    `json:"retry_after_ms"`
}

// refuse answers a request whose app cannot be asked. While it waits that is a 503 with an appointment,
// and for a person a page that says where it stands and comes back by itself.
func (a *app) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, errWaiting) {
		// Not for its visitors to read: the status page has it.
		http.Error(w, "the app "+a.spec.Name+" cannot be started; its status page says why", statusOf(err))
		return
	}
	s := a.status()
	in := time.Second
	if s.Place != nil && !s.Place.Turn.IsZero() {
		in = max(in, time.Until(s.Place.Turn))
	}
	w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(in.Seconds())), 10))
	if isPerson(r) {
		ownPage(w)
		w.WriteHeader(http.StatusServiceUnavailable)
		waitingPage.Execute(w, struct{ Name, Where string }{a.spec.Name, where(s.Place)})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	json.NewEncoder(w).Encode(Wait{api.WaitingCapacity, a.spec.Name, s.State, s.Place, in.Milliseconds()})
}

// statusOf keeps apart what the app's owner has to mend and what the app host has.
func statusOf(err error) int {
	if client.NotAllowed(err) || client.Never(err) {
		return http.StatusInternalServerError
	}
	return http.StatusBadGateway
}

// where says to a person where a waiting app stands.
func where(p *Place) string {
	switch {
	case p == nil:
		return "It will be here in a moment."
	case p.Position > 0:
		text := fmt.Sprintf("It is %s in line", ordinal(p.Position))
		if p.Cap != nil {
			text += fmt.Sprintf(", and all %d places are taken", *p.Cap)
		}
		if in := time.Until(p.Turn); in > 3*time.Second { // what is nearer the page itself finds out
			text += "; its turn is in about " + roughly(in)
		}
		return text + "."
	case p.For == "host":
		return "It waits for a machine with room."
	case p.For == "quota":
		return "It waits until another app of its owner sleeps."
	}
	return "It will be here as soon as there is room."
}

func ordinal(n int64) string {
	switch {
	case n == 1:
		return "next"
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// roughly rounds as a person would.
func roughly(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()+0.5))
	}
	return fmt.Sprintf("%d min", int(d.Minutes()+0.5))
}
