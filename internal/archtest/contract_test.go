package archtest

import (
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"

	"github.com/plimsoll-project/plimsoll/api"
)

// contract is the part of openapi.yaml that the table of codes must agree with.
type contract struct {
	Paths      map[string]map[string]yaml.Node `yaml:"paths"`
	Components struct {
		Schemas map[string]struct {
			Enum []string `yaml:"enum"`
		} `yaml:"schemas"`
	} `yaml:"components"`
}

func readContract(t *testing.T) contract {
	t.Helper()
	var c contract
	if err := yaml.Unmarshal([]byte(api.OpenAPI()), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A document that only our generator can read is no contract.
func TestContractIsValid(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// The codes and scopes are written by hand, where each has its meaning, and are the only
// schemas that are not generated. So this is where they are held together.
func TestContractNamesEveryCode(t *testing.T) {
	c := readContract(t)
	var codes []string
	for _, m := range api.Table() {
		codes = append(codes, string(m.Code))
	}
	if got := c.Components.Schemas["Code"].Enum; !slices.Equal(got, codes) {
		t.Errorf("openapi.yaml's Code lists\n%q\nand api.Table()\n%q", got, codes)
	}
	scopes := []string{
		string(api.ScopeRequest), string(api.ScopeHost), string(api.ScopePool),
		string(api.ScopeTenant), string(api.ScopeFleet),
	}
	if got := c.Components.Schemas["Scope"].Enum; !slices.Equal(got, scopes) {
		t.Errorf("openapi.yaml's Scope lists %q, and package api %q", got, scopes)
	}
}

// Every operation must be able to say every no: a typed one, or through default.
func TestEveryOperationHasADefault(t *testing.T) {
	type operation struct {
		Tags      []string             `yaml:"tags"`
		Responses map[string]yaml.Node `yaml:"responses"`
	}
	for path, methods := range readContract(t).Paths {
		for method, node := range methods {
			if method == "parameters" {
				continue
			}
			var op operation
			if err := node.Decode(&op); err != nil {
				t.Fatal(err)
			}
			if slices.Contains(op.Tags, "operations") {
				continue // plain pages for machines
			}
			for _, status := range []string{strconv.Itoa(http.StatusServiceUnavailable), "default"} {
				if _, ok := op.Responses[status]; !ok {
					t.Errorf("%s %s has no response %s", method, path, status)
				}
			}
		}
	}
}
