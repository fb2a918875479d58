package up_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

const standInFleet = `
fleet:
  default_quota: none
  pools: [{name: default, cap: none}]
  classes: [{name: small, pool: default, memory: 4GiB}]
`

// TestStandIn: a host that runs nothing of ours reports by the essay's heartbeat to one process,
// which keeps its ledger; replicas take it for an agent. Of the essay's fixture 25 fit, and the
// 26th does not; when its reports stop, nothing is placed there any more.
func TestStandIn(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.write(standInFleet)
	s.up()
	a, reports := newSite(t), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	a.verb = "agent"
	a.args = append(a.args, "--stand-in")
	for name, value := range map[string]string{
		"PLIMSOLL_STAND_IN_HOSTS": "agent-3f2a,silent", "PLIMSOLL_STAND_IN_LISTEN": reports,
		"PLIMSOLL_AGENT_LISTEN": "127.0.0.1:0", "PLIMSOLL_AGENT_REPLICAS": fmt.Sprintf("http://127.0.0.1:%d", s.port),
	} {
		a.set(name, value)
	}
	for _, id := range []string{"agent-3f2a", "silent"} {
		token, err := s.client().CreateJoinToken(within(t, 10*time.Second), id, 0)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(a.data, "hosts", id)
		os.MkdirAll(dir, 0o711)
		os.WriteFile(filepath.Join(dir, "join_token"), []byte(token.JoinToken), 0o600)
	}
	a.begin()
	fixture, err := os.ReadFile("../../table/testdata/heartbeat.json")
	if err != nil {
		t.Fatal(err)
	}
	second := 0
	post := func() int {
		token, err := os.ReadFile(filepath.Join(a.data, "reports_token"))
		if err != nil {
			return 0
		}
		second++
		body := strings.Replace(string(fixture), "11:04:22Z", fmt.Sprintf("11:%02d:%02dZ", second/60, second%60), 1)
		q, _ := http.NewRequestWithContext(within(t, 10*time.Second), "POST", "http://"+reports+"/v1/reports", strings.NewReader(body))
		q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	ctx := within(t, 60*time.Second)
	a.eventually("the host to be a candidate", func() bool {
		list, err := s.client().Admittable(ctx, "small")
		return post() == http.StatusNoContent && err == nil && len(list.Hosts) == 2 &&
			list.Hosts[0].Candidate && *list.Hosts[0].Fits == 25 && !list.Hosts[1].Candidate
	})
	for i := range 25 {
		got, err := s.client().Admit(ctx, api.AdmissionRequest{Key: fmt.Sprint("k", i), Class: "small"}, client.Options{Wait: client.Once})
		if err != nil || got.Host != "agent-3f2a" || got.ChargeMB != 1024 {
			t.Fatalf("number %d: %+v %v", i+1, got, err)
		}
	}
	_, err = s.client().Admit(ctx, api.AdmissionRequest{Key: "k25", Class: "small"}, client.Options{Wait: client.Once})
	if r, ok := api.AsRefusal(err); !ok || r.Code != api.NoCapacity {
		t.Errorf("the 26th: %v", err)
	}
	if _, err := s.client().Release(ctx, "k0"); err != nil {
		t.Error(err)
	}
	a.eventually("the room to be free again", func() bool {
		list, err := s.client().Admittable(ctx, "small")
		return post() == http.StatusNoContent && err == nil && *list.Hosts[0].Fits == 1
	})
	a.stop()
}
