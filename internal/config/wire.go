package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// checkWire proves what is set about the network between processes.
func (r *report) checkWire(l *Local) {
	if t := l.TLS; t != nil {
		for _, f := range []struct{ path, file, what string }{
			{"tls.cert", t.Cert, "this process's certificate"},
			{"tls.key", t.Key, "the certificate's private key"},
			{"tls.ca", t.CA, "the authority that signed the certificates of all replicas and agents"},
		} {
			switch {
			case f.file == "" && r.lines[f.path] == 0 && r.names[f.path] == "":
				r.relation([]string{"tls", f.path}, "lacks %s; name the file of %s", f.path, f.what)
			case !isAbsolute(f.file):
				r.relation([]string{f.path}, "%q is no absolute path; write it from the root, as in /etc/plimsoll/%s.pem", short(f.file), strings.TrimPrefix(f.path, "tls."))
			}
		}
	}
	if l.TLS == nil && !l.Plaintext && listenFault(l.Listen) == "" && beyondLoopback(l.Listen) {
		r.relation([]string{"listen"}, "%q is beyond this machine, and without TLS tokens and tickets would travel in the clear; set tls.cert, tls.key and tls.ca, listen on 127.0.0.1, or set plaintext: true where a proxy ends TLS", short(l.Listen))
	}
	for i, a := range l.Agents.Allow {
		if _, err := prefixOf(a); err != nil {
			r.relation([]string{fmt.Sprintf("agents.allow[%d]", i), "agents.allow"}, "%q is no address and no prefix of addresses; write one as in 10.0.0.0/8", short(a))
		}
	}
	if l.Agent != nil {
		r.checkAgent(l)
	}
	if l.StandIn != nil {
		r.checkStandIn(l)
	}
}

// mostStandIns is how many hosts one process stands in for: each has a stream of every replica.
const mostStandIns = 256

func (r *report) checkStandIn(l *Local) {
	s := l.StandIn
	if text := listenFault(s.Listen); text != "" {
		r.relation([]string{"stand_in.listen"}, "%q %s; write host:port, as in 127.0.0.1:7073", short(s.Listen), text)
	} else if l.TLS == nil && beyondLoopback(s.Listen) {
		r.relation([]string{"stand_in.listen"}, "%q is beyond this machine, and without TLS the reports' token would travel in the clear; set tls.cert, tls.key and tls.ca, or listen on 127.0.0.1", short(s.Listen))
	}
	if s.TokenFile != "" && !isAbsolute(s.TokenFile) {
		r.relation([]string{"stand_in.token_file"}, "%q is no absolute path; write it from the root, as in /etc/plimsoll/reports_token", short(s.TokenFile))
	}
	if len(s.Hosts) > mostStandIns {
		r.relation([]string{"stand_in.hosts"}, "are %d; one process stands in for at most %d: run another", len(s.Hosts), mostStandIns)
	}
	seen := map[string]bool{}
	for i, id := range s.Hosts {
		path := fmt.Sprintf("stand_in.hosts[%d]", i)
		if !namePattern.MatchString(id) || strings.Trim(id, ".") == "" {
			r.relation([]string{path, "stand_in.hosts"}, "%q is no name; write 1 to 128 of A-Z a-z 0-9 . _ : -", short(id))
		}
		if seen[id] {
			r.relation([]string{path, "stand_in.hosts"}, "host %q stands twice; remove one", short(id))
		}
		seen[id] = true
	}
}

func (r *report) checkAgent(l *Local) {
	a := l.Agent
	if text := listenFault(a.Listen); text != "" {
		r.relation([]string{"agent.listen"}, "%q %s; write host:port, as in 127.0.0.1:7071", short(a.Listen), text)
	} else if l.TLS == nil && beyondLoopback(a.Listen) {
		r.relation([]string{"agent.listen"}, "%q is beyond this machine, where replicas and agents speak by TLS alone; set tls.cert, tls.key and tls.ca, or listen on 127.0.0.1", short(a.Listen))
	}
	if a.Advertise != "" && (listenFault(a.Advertise) != "" || strings.HasPrefix(a.Advertise, ":")) {
		r.relation([]string{"agent.advertise"}, "%q is no address; write host:port as replicas reach it, as in 10.0.0.7:7071", short(a.Advertise))
	}
	for i, replica := range a.Replicas {
		path := []string{fmt.Sprintf("agent.replicas[%d]", i), "agent.replicas"}
		switch {
		case !isAddress(replica):
			r.relation(path, "%q is no address of an API; write it as in https://10.0.0.1:7070", short(replica))
		case InClear(replica):
			r.relation(path, "%q is beyond this machine, and the host's credential would travel in the clear; use https:// and set tls.ca", short(replica))
		}
	}
	if a.JoinTokenFile != "" && !isAbsolute(a.JoinTokenFile) {
		r.relation([]string{"agent.join_token_file"}, "%q is no absolute path; write it from the root, as in /etc/plimsoll/join_token", short(a.JoinTokenFile))
	}
}

// beyondLoopback says whether an address can be reached from other machines. A name is
// judged as one that can.
func beyondLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	return host != "localhost" && (err != nil || !ip.IsLoopback())
}

// InClear says whether what is sent to an address of an API would leave this machine
// unencrypted.
func InClear(address string) bool {
	u, err := url.Parse(address)
	return err != nil || u.Scheme != "https" && beyondLoopback(u.Host)
}

func prefixOf(s string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// AllowedAgents are the only addresses that a replica dials: as stated, else the loopback.
func (l *Local) AllowedAgents() (all []netip.Prefix) {
	for _, a := range l.Agents.Allow {
		if p, err := prefixOf(a); err == nil { // checkWire refuses others
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	return all
}

// AgentAddress is where replicas reach the agent that listens at an address.
func (l *Local) AgentAddress(listening net.Addr) string {
	if l.Agent != nil && l.Agent.Advertise != "" {
		return l.Agent.Advertise
	}
	return listening.String()
}

// HasReplicas says whether this process's agent belongs to replicas elsewhere.
func (l *Local) HasReplicas() bool { return l.Agent != nil && len(l.Agent.Replicas) > 0 }
