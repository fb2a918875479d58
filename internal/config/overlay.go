package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	environment = "environment" // stands for the file in faults of variables
	prefix      = "PLIMSOLL_"
)

// Variable is the environment variable of one local setting.
type Variable struct {
	Name string // as in PLIMSOLL_HOST_BUDGET
	Path string // as in host.budget
}

// Variables lists the variable of every local setting, in the order of the file. Tables
// (host.labels, host.dimensions) are written as name=value, joined by commas, and lists
// (agent.replicas, agents.allow) likewise.
func Variables() []Variable { return variablesOf("", reflect.TypeFor[Local]()) }

func variablesOf(path string, t reflect.Type) []Variable {
	var vars []Variable
	for _, f := range reflect.VisibleFields(t) {
		at, inner := join(path, f.Tag.Get("yaml")), f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			vars = append(vars, variablesOf(at, inner)...)
			continue
		}
		vars = append(vars, Variable{Name: prefix + strings.ToUpper(strings.ReplaceAll(at, ".", "_")), Path: at})
	}
	return vars
}

// Overlay puts what the environment says over the local settings; an empty variable says
// nothing. A variable of the host makes a host section where there is none. After an error,
// which is Faults that name the variables, the settings are as they were.
func Overlay(l *Local, getenv func(string) string) error {
	r, into := newReport(environment), l.clone()
	for _, v := range Variables() {
		if said := getenv(v.Name); said != "" {
			r.names[v.Path] = v.Name
			r.overlay(v.Path, said, into)
		}
	}
	if len(r.names) == 0 {
		return nil
	}
	r.checkLocal(into)
	if err := r.err(); err != nil {
		return err
	}
	*l = *into
	return nil
}

// clone copies what an overlay may change.
func (l *Local) clone() *Local {
	c := *l
	if l.Host != nil {
		h := *l.Host
		h.Labels, h.Dimensions = maps.Clone(h.Labels), maps.Clone(h.Dimensions)
		c.Host = &h
	}
	if l.TLS != nil {
		t := *l.TLS
		c.TLS = &t
	}
	if l.Agent != nil {
		a := *l.Agent
		a.Replicas = slices.Clone(a.Replicas)
		c.Agent = &a
	}
	if l.StandIn != nil {
		s := *l.StandIn
		s.Hosts = slices.Clone(s.Hosts)
		c.StandIn = &s
	}
	c.Agents.Allow = slices.Clone(l.Agents.Allow)
	return &c
}

// overlay decodes one variable as if it stood in the file.
func (r *report) overlay(path, said string, into *Local) {
	p := reflect.ValueOf(into)
	for key := range strings.SplitSeq(path, ".") {
		if v := p.Elem(); v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
				setDefaults(v)
			}
			p = v
		}
		p = p.Elem().FieldByIndex(fieldsOf(p.Elem().Type())[key].Index).Addr()
	}
	r.said(path, said, p)
}

// said decodes one setting that is written as one word: a list with commas, a table likewise.
func (r *report) said(path, said string, p reflect.Value) {
	switch p.Elem().Kind() {
	case reflect.Map:
		r.overlayTable(path, said, p)
		return
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for part := range strings.SplitSeq(said, ",") {
			n.Content = append(n.Content, variableNode(strings.TrimSpace(part), true))
		}
		p.Elem().SetZero()
		r.value(path, n, p)
		return
	}
	r.value(path, variableNode(said, p.Elem().Kind() == reflect.String), p)
}

// overlayTable decodes name=value,name=value.
func (r *report) overlayTable(path, said string, p reflect.Value) {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	texts := p.Type().Elem().Elem().Kind() == reflect.String
	for part := range strings.SplitSeq(said, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			r.add(0, path, "%q is no name=value; write them joined by commas, as in zone=a,rack=3", short(part))
			return
		}
		r.names[join(path, name)] = r.names[path]
		n.Content = append(n.Content, variableNode(name, true), variableNode(value, texts))
	}
	r.value(path, n, p)
}

// variableNode is a value as the file would hold it: a text needs no quotes in a variable.
func variableNode(value string, text bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: value}
	if text {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
