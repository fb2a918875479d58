package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// defaulter is a section whose settings have defaults; they stand before it is decoded.
type defaulter interface{ defaults() }

// document returns the root of the only document, or nil after a fault.
func (r *report) document(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		r.add(1, "", "says nothing at all; write at least one setting, as in data_dir: /var/lib/plimsoll")
		return nil
	case err != nil:
		r.syntax(err)
		return nil
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		r.add(more.Line, "", "a second document begins here; keep one and remove the line ---")
	case !errors.Is(err, io.EOF):
		r.syntax(err)
	default:
		return doc.Content[0]
	}
	return nil
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (r *report) syntax(err error) {
	line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = err.Error()[len(m[0]):]
	}
	r.add(line, "", "is not YAML: %s; look at the indentation and the quotes around this line", text)
}

// value decodes one node into what p points to.
func (r *report) value(path string, n *yaml.Node, p reflect.Value) {
	if !r.plain(path, n) {
		return
	}
	if text, known := scalar(n, p.Interface()); known {
		if text != "" {
			r.add(n.Line, path, "%s", text)
		}
		return
	}
	switch v := p.Elem(); v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		setDefaults(fresh)
		r.value(path, n, fresh)
		v.Set(fresh)
	case reflect.Slice:
		r.list(path, n, v)
	case reflect.Map:
		r.table(path, n, v)
	default:
		r.section(path, n, v)
	}
}

func setDefaults(p reflect.Value) {
	if d, ok := p.Interface().(defaulter); ok {
		d.defaults()
	}
}

// plain refuses what makes one node stand for another: what a line says must be there.
func (r *report) plain(path string, n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.add(n.Line, path, "uses an anchor or an alias; write the value out")
	case n.Style&yaml.TaggedStyle != 0:
		r.add(n.Line, path, "carries the tag %s; write the value without it", short(n.Tag))
	case n.ShortTag() == "!!null":
		r.add(n.Line, path, "has no value; give it one or remove the key")
	default:
		return true
	}
	return false
}

// entries calls visit for each key of a mapping, once.
func (r *report) entries(path string, n *yaml.Node, visit func(key string, name, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.add(n.Line, path, "is %s; write settings as name: value", kindOf(n))
		return
	}
	seen := map[string]int{} // key -> line
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.ShortTag() == "!!merge" {
			r.add(key.Line, path, "merges another section; write the settings out")
			continue
		}
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0 {
			r.add(key.Line, path, "has a key that is no plain word; write the name of a setting")
			continue
		}
		at := join(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			r.add(key.Line, at, "stands twice, first on line %d; remove one", first)
			continue
		}
		seen[key.Value] = key.Line
		visit(key.Value, key, n.Content[i+1])
	}
}

// section decodes a mapping into a struct.
func (r *report) section(path string, n *yaml.Node, v reflect.Value) {
	fields := fieldsOf(v.Type())
	stated := map[string]bool{}
	if _, known := r.lines[path]; !known {
		r.lines[path] = n.Line
	}
	r.entries(path, n, func(key string, name, value *yaml.Node) {
		at := join(path, key)
		f, known := fields[key]
		if !known {
			r.add(name.Line, at, "is not a setting; %s", suggestion(key, slices.Sorted(maps.Keys(fields))))
			return
		}
		stated[key] = true
		r.lines[at] = name.Line
		r.value(at, value, v.FieldByIndex(f.Index).Addr())
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if must := fields[key].Tag.Get("must"); must != "" && !stated[key] {
			r.add(n.Line, join(path, key), "is missing; %s", must)
		}
	}
}

// list decodes a sequence into a slice.
func (r *report) list(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		r.add(n.Line, path, "is %s; write a list, as in [a, b]", kindOf(n))
		return
	}
	items := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.lines[at] = item.Line
		setDefaults(items.Index(i).Addr())
		r.value(at, item, items.Index(i).Addr())
	}
	v.Set(items)
}

// table decodes a mapping with free names.
func (r *report) table(path string, n *yaml.Node, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	r.entries(path, n, func(key string, name, value *yaml.Node) {
		item := reflect.New(v.Type().Elem())
		at := join(path, key)
		r.lines[at] = name.Line
		r.value(at, value, item)
		m.SetMapIndex(reflect.ValueOf(key), item.Elem())
	})
	v.Set(m)
}

// fieldsOf returns the settings of a section; those of an embedded struct are its own.
func fieldsOf(t reflect.Type) map[string]reflect.StructField { // key -> field
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if key := f.Tag.Get("yaml"); key != "" && !f.Anonymous {
			fields[key] = f
		}
	}
	return fields
}

// kindOf names what a node is, for people.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!int" || n.ShortTag() == "!!float":
		return "a number"
	case n.ShortTag() == "!!bool":
		return "a truth value"
	case n.ShortTag() == "!!timestamp":
		return "a date"
	}
	return "a text"
}
