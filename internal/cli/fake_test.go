package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/plimsoll-project/plimsoll/api"
)

// fake is a server that says what a folder says: METHOD_path with / as _, for instance
// GET_v1_hosts.json, or the next of several as GET_v1_hosts.2.json. Requests and answers are
// held against the contract.
type fake struct {
	t      testing.TB
	dir    string
	router routers.Router

	mu    sync.Mutex     // guards what follows
	calls map[string]int // method and path -> how often
	log   []string
}

func newFake(t testing.TB, dir string) *fake {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &fake{t: t, dir: dir, router: router, calls: map[string]int{}}
}

func (f *fake) start() *httptest.Server { return httptest.NewServer(f) }

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	route, params, err := f.router.FindRoute(r)
	if err != nil {
		f.t.Errorf("%s %s is not in the contract: %v", r.Method, r.URL, err)
		http.Error(w, "no route", http.StatusInternalServerError)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	in := &openapi3filter.RequestValidationInput{
		Request: r, Route: route, PathParams: params,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true},
	}
	if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
		f.t.Errorf("%s %s: the request breaks the contract: %v", r.Method, r.URL, err)
	}
	status, answer := f.answer(r, body)
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: w.Header().Clone(), Options: in.Options}
	out.SetBodyBytes(answer)
	if err := openapi3filter.ValidateResponse(r.Context(), out); err != nil {
		f.t.Errorf("%s %s: the fake's answer breaks the contract: %v", r.Method, r.URL, err)
	}
	w.WriteHeader(status)
	w.Write(answer)
}

// answer takes the next file for this call, or says that there is no such thing.
func (f *fake) answer(r *http.Request, body []byte) (int, []byte) {
	if r.Header.Get("Authorization") != "Bearer good" {
		return problem(api.Unauthenticated)
	}
	name := r.Method + strings.ReplaceAll(r.URL.Path, "/", "_")
	if r.Method == http.MethodPost && r.URL.Path == "/v1/admissions" {
		name = "POST_v1_admissions"
	}
	if generation := r.URL.Query().Get("generation"); generation != "" {
		name += "_generation_" + generation
	}
	f.mu.Lock()
	f.calls[name]++
	n := f.calls[name]
	f.log = append(f.log, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	f.mu.Unlock()
	for _, file := range []string{fmt.Sprintf("%s.%d.json", name, n), name + ".json"} {
		if text, err := os.ReadFile(filepath.Join(f.dir, file)); err == nil {
			return split(f.t, file, text)
		}
	}
	return problem(api.NotFound)
}

// split takes the status from a file's first line, or fills a bare code up to a problem.
func split(t testing.TB, file string, text []byte) (int, []byte) {
	head, body, _ := strings.Cut(string(text), "\n")
	var status int
	if n, _ := fmt.Sscan(head, &status); n != 1 {
		t.Errorf("%s does not begin with a status", file)
	}
	if strings.TrimSpace(body) == "" {
		return problem(api.Code(strings.Fields(head)[1]))
	}
	return status, []byte(strings.ReplaceAll(body, "$NOW", time.Now().UTC().Format(time.RFC3339)))
}

func problem(code api.Code) (int, []byte) {
	m := code.Meaning()
	body, _ := json.Marshal(api.Problem{
		Type: "urn:plimsoll:problem:" + string(code), Title: m.Title, Status: m.Status, Code: code,
		Scope: m.Scope, Retryable: m.Retryable(), RetryAfterMS: map[bool]int64{true: 2400}[m.Retryable()],
	})
	return m.Status, body
}

// seen is the calls so far, one a line.
func (f *fake) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.log, "\n") + "\n"
}
