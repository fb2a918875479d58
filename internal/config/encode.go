package config

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Document returns the fleet's document in canonical form: lists by name, every setting
// stated, one a line. Equal settings give equal bytes, and no later version's defaults
// change what a stored document means.
func (f *Fleet) Document() string {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(encode(reflect.ValueOf(*f))); err != nil {
		panic(fmt.Sprintf("write the fleet's document: %v", err)) // it is made of plain nodes alone
	}
	return b.String()
}

func encode(v reflect.Value) *yaml.Node {
	if n, ok := encodeScalar(v.Interface()); ok {
		return n
	}
	switch v.Kind() {
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, encode(v.Index(i)))
		}
		return n
	case reflect.Map:
		return encodeTable(v)
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if item := v.FieldByIndex(f.Index); !isOmitted(f, item) {
			n.Content = append(n.Content, text(f.Tag.Get("yaml")), encode(item))
		}
	}
	return n
}

// isOmitted says whether a setting is a list or a table with nothing in it, or one that says
// nothing where its kind of pool, class or share has none. A setting that is newer than
// documents without it is left out too: an older version reads what does not use it.
func isOmitted(f reflect.StructField, v reflect.Value) bool {
	switch {
	case f.Tag.Get("must") != "":
		return false
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Map:
		return v.Len() == 0
	case f.Tag.Get("omit") == "unset":
		return v.Int() == unset
	}
	return f.Tag.Get("omit") == "empty" && v.IsZero()
}

func encodeTable(v reflect.Value) *yaml.Node {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range keys {
		n.Content = append(n.Content, text(k.String()), encode(v.MapIndex(k)))
	}
	return n
}

// encodeScalar is the inverse of scalar.
func encodeScalar(v any) (*yaml.Node, bool) {
	switch v := v.(type) {
	case string:
		return text(v), true
	case Placement:
		return text(string(v)), true
	case Record:
		return text(string(v)), true
	case Reserve:
		return text(string(v)), true
	case Role:
		return text(string(v)), true
	case TokenHash:
		return text(hex.EncodeToString(v[:])), true
	case bool:
		return bare(strconv.FormatBool(v)), true
	case int:
		return bare(strconv.Itoa(v)), true
	case int64:
		return bare(strconv.FormatInt(v, 10)), true
	case Limit:
		return bare(v.String()), true
	case Milli:
		return bare(formatDecimal(int64(v), 3)), true
	case Percent:
		return bare(formatDecimal(int64(v), 2)), true
	case gate.Bytes:
		return bare(formatBytes(v)), true
	case time.Duration:
		return bare(formatDuration(v)), true
	case gate.Mode:
		return bare(v.String()), true
	case host.Enforcement:
		return bare(v.String()), true
	case pool.Enforcement:
		return bare(v.String()), true
	case gate.ReserveUntil:
		return bare(untilWord(v)), true
	}
	return nil, false
}

// text is a string, quoted where YAML would take it for something else.
func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func bare(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// String prints the number, or the word none.
func (l Limit) String() string {
	if l == None {
		return "none"
	}
	return strconv.FormatInt(int64(l), 10)
}
