package cli

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/workload"
)

// recordOf turns a list into arrivals: what ran between so long before the list and the list.
// What ran already when that began is there from the beginning, with the rest of its life, so
// that at no time of the record somebody is missing.
func recordOf(list *api.AdmissionList, since time.Duration) (r record) {
	from, to := list.At.Add(-since), *list.At
	var ran []*api.Admission
	first := to
	for i := range list.Admissions {
		m := &list.Admissions[i]
		switch {
		case m.CreatedAt.After(to), m.EndedAt != nil && !m.EndedAt.After(from):
		case m.StartedAt == nil || m.StartedAt.After(to):
			r.neverRan++
		case m.MemoryMB <= 0:
			r.unsized++
		default:
			ran = append(ran, m)
			if m.CreatedAt.Before(first) {
				first = m.CreatedAt
			}
			if _, alone := admission.ByHost(m.ID); alone {
				r.byHosts++
			}
		}
	}
	if first.After(from) {
		from = first
	}
	slices.SortFunc(ran, earlier)
	numbers := map[batch]int{}
	for _, m := range ran {
		b := batchOf(m)
		if numbers[b] == 0 {
			numbers[b] = len(numbers) + 1
		}
		r.arrivals = append(r.arrivals, arrivalOf(m, numbers[b], from, to))
	}
	r.lasts = to.Sub(from)
	return r
}

func earlier(a, b *api.Admission) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// batch is what one tenant asked for at the same time.
type batch struct {
	consumer, tenant, class string
	second                  int64
}

func batchOf(m *api.Admission) batch {
	return batch{m.Consumer, m.Tenant, m.Class, m.CreatedAt.Unix()}
}

// arrivalOf is one that ran between from and to, or beyond.
func arrivalOf(m *api.Admission, number int, from, to time.Time) workload.Arrival {
	began, ended := later(*m.StartedAt, from), to
	censored := true
	if m.EndedAt != nil && !m.EndedAt.After(to) {
		ended = *m.EndedAt
		censored = m.State == api.AdmissionStateEvicted || m.State == api.AdmissionStateLost
	}
	return workload.Arrival{
		At:         later(m.CreatedAt, from).Sub(from),
		Batch:      number,
		CPUMilli:   int64(math.Round(m.CPU * 1000)),
		Configured: gate.FromMiB(m.MemoryMB),
		Life:       max(ended.Sub(began), 0),
		Censored:   censored,
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
