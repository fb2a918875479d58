package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// Many requests for one app that sleeps wake it once, and it remembers what it wrote down.
func TestRequestsShareOneWake(t *testing.T) {
	s := newStage(t, 400*time.Millisecond)
	var all sync.WaitGroup
	var mu sync.Mutex
	processes := map[int]int{} // process -> requests that it answered
	for range 20 {
		all.Go(func() {
			status, body, _, err := s.try("blog", "/", "*/*")
			if err != nil || status != http.StatusOK {
				t.Errorf("%d %s %v", status, body, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			processes[said(t, body, "process ")]++
		})
	}
	all.Wait()
	if len(processes) != 1 {
		t.Errorf("%v answered, want one process", processes)
	}
	a := s.becomes("blog", Hibernated) // idle
	if got, want := states(a), "waiting_capacity running hibernated"; got != want {
		t.Errorf("it was %s, want %s", got, want)
	}
	for pid := range processes {
		eventually(t, "the process to be gone", func() bool { return syscall.Kill(pid, 0) != nil })
	}
	if pid, visits := s.visit("blog"); processes[pid] != 0 || visits != 21 {
		t.Errorf("process %d has visit %d; want another process, and visit 21", pid, visits)
	}
}

func states(a AppStatus) string {
	var all []string
	for _, step := range a.Steps {
		all = append(all, string(step.State))
	}
	return strings.Join(all, " ")
}

// A full pool is a place in a line: a person sees it, a program is held, and neither is told of a failure.
func TestWaitingIsNoError(t *testing.T) {
	s := newStage(t, time.Hour)
	first, _ := s.visit("blog")
	s.visit("shop")
	status, page, header := s.get("wiki", "/", "text/html,*/*")
	retry, err := strconv.Atoi(header.Get("Retry-After"))
	if status != http.StatusServiceUnavailable || err != nil || retry < 1 || !strings.Contains(page, `http-equiv="refresh"`) {
		t.Errorf("%d, Retry-After %q:\n%s", status, header.Get("Retry-After"), page)
	}
	eventually(t, "the page to say its place", func() bool {
		_, page, _ = s.get("wiki", "/", "text/html")
		return strings.Contains(page, "It is next in line, and all 2 places are taken")
	})
	if a := s.app("wiki"); a.State != Waiting || a.Place == nil || a.Place.Position != 1 || a.Place.Pool != "apps" || a.Problem != "" {
		t.Errorf("%+v", a)
	}
	held := make(chan string, 1)
	go func() {
		status, body, _, err := s.try("wiki", "/", "*/*")
		held <- fmt.Sprint(status, body, err)
	}()
	eventually(t, "it to be held", func() bool { return s.app("wiki").State == Waiting })
	syscall.Kill(first, syscall.SIGKILL) // a slot is freed by an app's own end
	if answer := <-held; !strings.HasPrefix(answer, "200") {
		t.Errorf("the request that was held: %s", answer)
	}
	if a := s.becomes("blog", Hibernated); a.Problem != "" {
		t.Errorf("%+v", a)
	}
	s.becomes("wiki", Running)
}

// A place that nobody asks for any more is given back.
func TestAnUnwantedPlaceIsGivenBack(t *testing.T) {
	s := newStage(t, time.Hour)
	s.visit("blog")
	s.visit("shop")
	s.get("wiki", "/", "text/html")
	if a := s.becomes("wiki", Hibernated); states(a) != "waiting_capacity hibernated" {
		t.Errorf("it was %s", states(a))
	}
	eventually(t, "the line to be empty", func() bool {
		for _, p := range s.look().Pools {
			if p.Name == "apps" {
				return p.Waiting == 0 && p.Busy == 2
			}
		}
		return false
	})
}

// An app that is killed is woken by the next request, which does not see that.
func TestAKilledAppIsWoken(t *testing.T) {
	s := newStage(t, time.Hour)
	pid, _ := s.visit("blog")
	for i := range 3 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		next, visits := s.visit("blog")
		if next == pid || visits != i+2 {
			t.Errorf("process %d after %d, visit %d", next, pid, visits)
		}
		pid = next
	}
}

// The app host itself may be killed at any time: what ran answers from the same process, what waited waits on.
func TestTheAppHostIsKilled(t *testing.T) {
	s := newStage(t, time.Hour)
	blog, _ := s.visit("blog")
	shop, _ := s.visit("shop")
	s.get("wiki", "/", "text/html")
	s.becomes("wiki", Waiting)
	s.apps.kill()
	if err := syscall.Kill(shop, syscall.SIGKILL); err != nil { // and an app ends meanwhile
		t.Fatal(err)
	}
	s.apps.start()
	if pid, _ := s.visit("wiki"); pid == shop {
		t.Error("a dead process answered")
	}
	if pid, visits := s.visit("blog"); pid != blog || visits != 2 {
		t.Errorf("process %d, visit %d; want %d, 2", pid, visits, blog)
	}
	if a := s.becomes("shop", Hibernated); a.Problem != "" {
		t.Errorf("%+v", a)
	}
	s.apps.stop()
	if err := syscall.Kill(blog, 0); err != nil {
		t.Errorf("a polite end took an app along: %v", err)
	}
	s.apps.start()
	if pid, _ := s.visit("blog"); pid != blog {
		t.Errorf("process %d, want %d", pid, blog)
	}
}

// Killed between the boot and the note of it: the admission's key leads back to what runs.
func TestAForgottenBootIsFound(t *testing.T) {
	s := newStage(t, time.Hour)
	pid, _ := s.visit("blog")
	s.apps.kill()
	path := s.path("a/blog.json")
	record, err := readRecord(path)
	if err != nil {
		t.Fatal(err)
	}
	record.step(time.Now(), Waiting, "as it was before the boot")
	record.Admission, record.Epoch = "", 0
	if err := record.write(path); err != nil {
		t.Fatal(err)
	}
	s.apps.start()
	if next, _ := s.visit("blog"); next != pid {
		t.Errorf("process %d, want %d", next, pid)
	}
}

// With a replica down the next is asked. With all down what runs goes on, and what sleeps waits.
func TestReplicasDown(t *testing.T) {
	s := newStage(t, time.Hour, fmt.Sprintf("http://127.0.0.1:%d", freePort(t)))
	pid, _ := s.visit("blog")
	s.gate.kill()
	if again, _ := s.visit("blog"); again != pid {
		t.Errorf("process %d, want %d", again, pid)
	}
	status, page, _ := s.get("shop", "/", "text/html")
	if a := s.app("shop"); status != http.StatusServiceUnavailable || a.State != Waiting || a.Problem != "" {
		t.Errorf("%d %s\n%+v", status, page, a)
	}
	held := make(chan int, 1)
	go func() {
		status, _, _, _ := s.try("shop", "/", "*/*")
		held <- status
	}()
	s.gate.start()
	if status := <-held; status != http.StatusOK {
		t.Errorf("once the gate is back: %d", status)
	}
	if again, _ := s.visit("blog"); again != pid {
		t.Errorf("process %d, want %d", again, pid)
	}
}

// What waiting does not change is told, and is no state either: the app sleeps.
func TestANeverIsToldAndNotWrittenDown(t *testing.T) {
	s := newStage(t, time.Hour)
	for name, want := range map[string]struct {
		status int
		words  string
	}{
		"typo":   {http.StatusInternalServerError, "unknown_class"},
		"broken": {http.StatusBadGateway, "does not listen"},
		"lost":   {http.StatusInternalServerError, "nowhere"},
	} {
		status, body, _ := s.get(name, "/", "*/*")
		if status != want.status || strings.Contains(body, want.words) {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if a := s.becomes(name, Hibernated); !strings.Contains(a.Problem, want.words) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if status, _, _ := s.get("nosuch", "/", "*/*"); status != http.StatusNotFound {
		t.Errorf("an app that does not exist: %d", status)
	}
	for _, p := range s.look().Pools {
		if p.Name == "other" && p.Busy != 0 {
			t.Errorf("%d slots are held by what did not start", p.Busy)
		}
	}
}

// A body that was held is an appointment for a program, too.
func TestARequestIsHeldForSoLong(t *testing.T) {
	s := newStage(t, time.Hour)
	s.apps.stop()
	s.apps.argv = append(s.apps.argv, "--hold", "400ms")
	s.apps.start()
	s.visit("blog")
	s.visit("shop")
	status, body, header := s.get("wiki", "/", "application/json")
	var w Wait
	if err := json.Unmarshal([]byte(body), &w); err != nil || status != http.StatusServiceUnavailable {
		t.Fatalf("%d %s %v", status, body, err)
	}
	if w.Code != "waiting_capacity" || w.State != Waiting || w.RetryAfterMS < 1000 || header.Get("Retry-After") == "" {
		t.Errorf("%+v", w)
	}
}

// A record that nobody understands is not guessed at.
func TestRecordsAreChecked(t *testing.T) {
	path := t.TempDir() + "/a.json"
	for _, text := range []string{`{"state":"error"}`, `{}`, `not json`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := readRecord(path); err == nil {
			t.Errorf("%s was read as %+v", text, r)
		}
	}
}

// The status page shows what is so, in a real browser. Skipped where there is none.
func TestTheStatusPage(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skipf("no browser is here: %v", err)
	}
	s := newStage(t, time.Hour)
	s.visit("blog")
	s.visit("shop")
	s.get("wiki", "/", "text/html")
	s.get("typo", "/", "*/*")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	held := make(chan struct{})
	go func() { defer close(held); s.try("wiki", "/", "*/*") }() // so that it goes on waiting
	dom, err := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=3000", "--dump-dom", fmt.Sprintf("http://127.0.0.1:%d/", s.port)).Output()
	if err != nil {
		t.Fatalf("the browser: %v", err)
	}
	for _, words := range []string{
		"2 running, 1 waiting, 3 hibernated", "2 of 2 busy, 1 waits", "in line of pool apps, 2 of 2 busy",
		"The last wake came to nothing: unknown_class", "running: admitted on h1", "wakes at the next request",
	} {
		if !strings.Contains(string(dom), words) {
			t.Errorf("the page does not say %q:\n%s", words, dom)
		}
	}
	s.apps.stop() // answers the request that is held
	<-held
	s.apps.start()
}

// What makes an app wait, and what does not: the calls wait long themselves, so few of these come through.
func TestTempo(t *testing.T) {
	_, away := boot.Client{Socket: t.TempDir() + "/nobody"}.Redeem(t.Context(), "ticket")
	for _, err := range []error{
		&client.StillWaiting{}, &client.Unreachable{Err: errors.New("refused")}, api.Refuse(api.QueueTimeout, ""), api.Refuse(api.PoolFull, ""),
		fmt.Errorf("boot it: %w", api.Refuse(api.ReservationLapsed, "")), fmt.Errorf("boot it: %w", away), fmt.Errorf("boot it: %w", boot.ErrConnectionLost),
	} {
		if !isTempo(err) {
			t.Errorf("%v is no tempo", err)
		}
	}
	for _, err := range []error{api.Refuse(api.UnknownClass, ""), api.Refuse(api.Forbidden, ""), api.Refuse(api.TicketRejected, ""), errNoStart, errSpent} {
		if isTempo(err) {
			t.Errorf("%v is a tempo", err)
		}
	}
}
