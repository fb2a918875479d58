package web

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// fill sets every field below v, each to nothing in one of three cases.
func fill(v reflect.Value, r *rand.Rand) {
	if r.IntN(3) == 0 {
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.UnixMilli(r.Int64N(1 << 45)).UTC()))
		return
	}
	words := []string{"bench-17", "", `a"b`, "<a&b>", "\u2028é", "\xff", "\n", `back\slash`}
	word := func() string { return words[r.IntN(len(words))] }
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if v.Type().Elem().Kind() == reflect.String {
			v.SetMapIndex(reflect.ValueOf(word()).Convert(v.Type().Key()), reflect.ValueOf(word()).Convert(v.Type().Elem()))
		}
	case reflect.String:
		v.SetString(word())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(r.Uint64()) >> r.IntN(64))
	case reflect.Float64:
		v.SetFloat([]float64{0.5, 1e-7, 1e22, -3, 0.001, 123456.789}[r.IntN(6)])
	default:
		panic("a field of a kind that nobody fills: " + v.Type().String())
	}
}

// An answer's text is that of encoding/json, byte for byte, whatever its fields hold.
func TestAnswerEqualsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		var a api.BatchAnswer
		fill(reflect.ValueOf(&a).Elem(), r)
		want, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendBatch(nil, &a); string(got) != string(want) {
			t.Fatalf("%s\nwant %s", got, want)
		}
	}
}

// What is read in one go is what would have been read ask by ask.
func TestPlainItems(t *testing.T) {
	one := `{"key":"a","class":"c","labels":{"x":"y"},"cpu":0.5,"host":{"id":"h","mode":"prefer"}}`
	plain := map[string]bool{
		`{"admissions":[` + one + `]}`:                            true,
		" {\n\"admissions\" : [ " + one + " , null,{}] } \n":      true,
		`{"admissions":[{"KEY":"a","key":"b","Class":"c"}]}`:      true,
		`{"admissions":[` + one + `],"admissions":[{"key":"b"}]}`: false,
		`{"Admissions":[` + one + `]}`:                            false,
		`{"admissions":[` + one + `,]}`:                           false,
		`{"admissions":[` + one + ` ` + one + `]}`:                false,
		`{"admissions":[{"nosuch":1}]}`:                           false,
		`{"admissions":[1]}`:                                      false,
		`{"admissions":[` + one + `]} {}`:                         false,
		`{"admissions":[` + one + `]}}`:                           false,
		`{"admissions":[` + one + `],}`:                           false,
		`{"admissions":[` + one:                                   false,
		`{"admissions":[]}`:                                       false,
		`{"admissions":null}`:                                     false,
		`[]`:                                                      false,
		``:                                                        false,
		`{"admissions":[` + strings.Repeat("{},", mostInBatch) + `{}]}`: false,
	}
	for body, want := range plain {
		got, ok := plainItems([]byte(body))
		if ok != want {
			t.Errorf("%s: plain: %v", body, ok)
		}
		if all, err := anyItems([]byte(body)); ok && (err != nil || !reflect.DeepEqual(got, all)) {
			t.Errorf("%s: %+v, and ask by ask %+v %v", body, got, all, err)
		}
	}
}
