package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestWire: what would travel in the clear beyond this machine is refused, and so is what is
// no address; each with its line and the remedy.
func TestWire(t *testing.T) {
	const certificate = "tls: {cert: /c, key: /k, ca: /a}\n"
	for text, want := range map[string]string{
		"listen: 0.0.0.0:7070\n":                             "p.yaml:1: listen: \"0.0.0.0:7070\" is beyond this machine",
		"listen: replica-1:7070\n":                           "set plaintext: true where a proxy ends TLS",
		"listen: 0.0.0.0:7070\nplaintext: true\n":            "",
		certificate + "listen: 0.0.0.0:7070\n":               "",
		"tls: {cert: /c, key: /k}\n":                         "tls.ca",
		"tls: {cert: c, key: /k, ca: /a}\n":                  `p.yaml:1: tls.cert: "c" is no absolute path`,
		"agents: {allow: [10.0.0.0/8, 10.1.2.3, \"::1\"]}\n": "",
		"agents:\n  allow:\n    - 10.0.0.0/8\n    - all\n":   `p.yaml:4: agents.allow[1]: "all" is no address`,
		"agent: {}\n": "",
		"agent: {listen: \"0.0.0.0:7071\", replicas: [\"http://127.0.0.1:1\"]}\n": "p.yaml:1: agent.listen: \"0.0.0.0:7071\" is beyond this machine",
		"agent: {listen: nowhere}\n": "agent.listen",
		certificate + "agent: {listen: \"0.0.0.0:7071\", advertise: \"10.0.0.7:7071\"}\n": "",
		"agent: {advertise: \":7071\"}\n":                                                 "agent.advertise",
		"agent:\n  replicas:\n    - http://127.0.0.1:7070\n    - http://10.0.0.1:7070\n":  `p.yaml:4: agent.replicas[1]: "http://10.0.0.1:7070" is beyond this machine`,
		"agent: {replicas: [\"127.0.0.1:7070\"]}\n":                                       "is no address of an API",
		certificate + "agent: {replicas: [\"https://10.0.0.1:7070\"]}\n":                  "",
		"agent: {join_token_file: token}\n":                                               "agent.join_token_file",
		"agent: {join_token: abc}\n":                                                      "is not a setting",
	} {
		_, err := Parse("p.yaml", []byte(text))
		switch {
		case want == "" && err != nil:
			t.Errorf("%q is refused: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v; it should say %s", text, err, want)
		}
	}
}

func TestWireOfTheEnvironment(t *testing.T) {
	l := parse(t, "data_dir: /d\n").Local
	set := map[string]string{
		"PLIMSOLL_AGENT_REPLICAS": "http://127.0.0.1:1, http://127.0.0.1:2", "PLIMSOLL_AGENT_JOIN_TOKEN_FILE": "/t",
		"PLIMSOLL_AGENTS_ALLOW": "10.0.0.0/8,127.0.0.1", "PLIMSOLL_TLS_CERT": "/c", "PLIMSOLL_TLS_KEY": "/k", "PLIMSOLL_TLS_CA": "/a",
	}
	if err := Overlay(&l, func(name string) string { return set[name] }); err != nil {
		t.Fatal(err)
	}
	if l.TLS == nil || l.TLS.CA != "/a" || !l.HasReplicas() || l.Agent.Listen != "127.0.0.1:7071" || l.Agent.JoinTokenFile != "/t" {
		t.Errorf("%+v", l)
	}
	if want := []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}; !slices.Equal(l.Agent.Replicas, want) {
		t.Errorf("%q", l.Agent.Replicas)
	}
	if got := l.AllowedAgents(); len(got) != 2 || !got[0].Contains(netip.MustParseAddr("10.9.9.9")) || got[1].Bits() != 32 {
		t.Errorf("%v", got)
	}
	if got := parse(t, "data_dir: /d\n").Local.AllowedAgents(); len(got) != 2 || !got[0].Contains(netip.MustParseAddr("127.9.9.9")) {
		t.Errorf("by default %v", got)
	}
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	if got := l.Address(at); got != "https://127.0.0.1:9" {
		t.Error(got)
	}
	l.Agent.Advertise = "10.0.0.7:7071"
	if got := l.AgentAddress(at); got != "10.0.0.7:7071" {
		t.Error(got)
	}
	parse(t, AgentExample())
}
