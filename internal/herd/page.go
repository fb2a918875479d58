package herd

import (
	"fmt"

	"github.com/plimsoll-project/plimsoll/internal/report"
)

// Page is the result for whoever decides by it.
func (r *Result) Page() *report.Page {
	return &report.Page{Title: "What it costs that many replicas decide", Lead: fmt.Sprintf("%d rows.", len(r.Rows)), Assumed: r.Assumed}
}

// Page is the result for whoever decides by it.
func (r *BurstResult) Page() *report.Page {
	return &report.Page{Title: "A burst over many replicas", Lead: fmt.Sprintf("%d creates.", r.Creates), Assumed: r.Assumed}
}
