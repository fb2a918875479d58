package config

import (
	"strings"
	"testing"
)

func TestRecordByHost(t *testing.T) {
	text := strings.NewReplacer("cap: 5", "cap: none", "memory: 512MiB", "memory: 512MiB, record: host").Replace(fleet(""))
	f := parse(t, text).Fleet
	if c := f.Classes[0]; c.Record != ByHost || len(f.ByHosts(c.Pool)) != 1 {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(f.Document(), "record: host") {
		t.Error("not in the document")
	}
	f = parse(t, strings.Replace(text, "record: host", "record: store", 1)).Fleet
	if f.Classes[0].Record != ByStore || strings.Contains(f.Document(), "record") {
		t.Error("store is what there is without a word")
	}
}

// Whatever would have to be counted stands in its way, each with its line and a way out.
func TestRecordByHostCountsNothing(t *testing.T) {
	_, err := Parse("p.yaml", []byte(`fleet:
  ceiling: 9
  default_quota: 3
  quotas: [{tenant: acme, limit: 2}, {tenant: free, limit: none}]
  pools:
  - {name: a, cap: 5}
  - {name: b, cap: 1, placement: none}
  - name: c
    cap: none
    shares: [{priority: 0, max: 3}]
  classes:
  - {name: s, pool: a, memory: 1GiB, record: host, stateful: true}
  - {name: t, pool: b, record: host}
  - {name: u, pool: c, memory: 1GiB, record: host}
  - {name: v, pool: a, memory: 1GiB, record: nobody}
`))
	for _, want := range []string{
		`p.yaml:12: fleet.classes[0].record: what is stateful must be known when its host is not there; remove stateful, or leave record out, and the store keeps its admissions`,
		`p.yaml:12: fleet.classes[0].record: pool "a" has a cap of 5, which must be counted, and no host can; put the class in a pool with cap: none, or leave record out, and the store keeps its admissions`,
		`p.yaml:12: fleet.classes[0].record: a default_quota of 3 must be counted`,
		`p.yaml:12: fleet.classes[0].record: the quota of tenant "acme" must be counted`,
		`p.yaml:13: fleet.classes[1].record: pool "b" is without hosts, so no host keeps a record; leave record out`,
		`p.yaml:14: fleet.classes[2].record: pool "c" has shares`,
		`p.yaml:15: fleet.classes[3].record: "nobody" is not known here; write store or host`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s\n%v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), `"free"`) {
		t.Error("a quota of none is none")
	}
}
