package web_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// TestListIsNewestFirst: a limit cuts off the oldest.
func TestListIsNewestFirst(t *testing.T) {
	r := newRig(t, options{})
	for i := range 6 {
		r.create(201, post(fmt.Sprint("k", i), "small"))
		r.clock.Advance(time.Second)
	}
	var list api.AdmissionList
	r.call("alice", "GET", "/v1/admissions?limit=3", "").into(&list)
	var keys []string
	for _, a := range list.Admissions {
		keys = append(keys, a.Key)
	}
	if !slices.Equal(keys, []string{"k5", "k4", "k3"}) || !list.Truncated {
		t.Errorf("%v, truncated %v", keys, list.Truncated)
	}
	for _, bad := range []string{"limit=0", "limit=1001", "limit=x", "state=asleep", "limit=-1", "order=oldest", "after=a", "order=newest&after=a"} {
		r.refused(api.InvalidRequest, "alice", "GET", "/v1/admissions?"+bad, "")
	}
}

// TestListByPages: page by page comes everything, each once, whatever ended or came meanwhile;
// and of each page it is said when it was so.
func TestListByPages(t *testing.T) {
	r := newRig(t, options{})
	for i := range 7 {
		r.create(201, post(fmt.Sprint("k", i), "small"))
	}
	r.call("alice", "DELETE", "/v1/admissions/k3", "")
	keys, after := map[string]int{}, ""
	for pages := 1; ; pages++ {
		r.clock.Advance(time.Second)
		var list api.AdmissionList
		r.call("olga", "GET", "/v1/admissions?order=id&limit=3&after="+after, "").into(&list)
		if list.At == nil || list.At.Before(list.Admissions[0].CreatedAt) {
			t.Errorf("page %d is of %v, and has what came at %v", pages, list.At, list.Admissions[0].CreatedAt)
		}
		for _, a := range list.Admissions {
			if keys[a.Key]++; a.ID <= after {
				t.Errorf("%s after %s", a.ID, after)
			}
			after = a.ID
		}
		if pages == 1 {
			r.call("alice", "DELETE", "/v1/admissions/k1", "")
		}
		if !list.Truncated {
			if len(keys) != 7 || pages != 3 || keys["k1"] != 1 {
				t.Errorf("%d pages: %v", pages, keys)
			}
			return
		}
	}
}
