package up_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// metrics scrapes a process that has none of a replica's API.
func (s *site) metrics(port int) string {
	s.t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatal(resp.Status, err)
	}
	return string(text)
}

func wantSeries(t *testing.T, text string, series ...string) {
	t.Helper()
	for _, want := range series {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

// An agent without a replica has the host's figures, under the names by which a replica has them.
func TestMetricsOfAnAgentAlone(t *testing.T) {
	s, port := newSite(t), freePort(t)
	s.verb = "agent"
	s.set("PLIMSOLL_METRICS", fmt.Sprintf("127.0.0.1:%d", port))
	s.up()
	wantSeries(t, s.metrics(port), `plimsoll_host_reservations{host="h1"} 0`, `plimsoll_host_resident_bytes{host="h1"} 0`, `plimsoll_host_admittable_bytes{host="h1"} 8`)
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// One that only observes says what each mode would hold, and serves it only where it is told to.
func TestMetricsOfAnObserver(t *testing.T) {
	s, port := newSite(t), freePort(t)
	s.verb = "agent"
	s.args = []string{"--observe", "--match", "^no such process", "--metrics", fmt.Sprintf("127.0.0.1:%d", port)}
	s.up()
	wantSeries(t, s.metrics(port), `plimsoll_host_sandboxes{host="h1"} 0`, `plimsoll_host_committed_bytes{host="h1"} 0`,
		`plimsoll_observed_held_bytes{host="h1",mode="committed"} 0`, `plimsoll_observed_admittable_bytes{host="h1",mode="working-set"} 8`)
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	for arg, says := range map[string]string{"0.0.0.0:1": "beyond this machine", "1": "is no address"} {
		s.args = []string{"--observe", "--match", "x", "--metrics", arg}
		s.fails(says)
	}
}
