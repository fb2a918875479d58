package client

import (
	"net/http"
	"testing"
	"time"
)

// Whatever an answer holds, it becomes a refusal with a code of the table and an appointment
// that can be waited for.
func FuzzRefusal(f *testing.F) {
	f.Add(503, "application/problem+json", `{"code":"pool_full","retry_after_ms":2400}`, "3")
	f.Add(503, "application/problem+json", `{"code":"later","retry_after_ms":-1,"errors":[{"line":1}]}`, "Sun, 06 Nov 1994 08:49:37 GMT")
	f.Add(502, "text/html", "<html>", "99999999999999999999")
	f.Add(200, "", "null", "")
	f.Fuzz(func(t *testing.T, status int, kind, body, after string) {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}, "Retry-After": {after}}}
		r, _ := refusalOf(resp, []byte(body), time.Unix(1_800_000_000, 0))
		if !known(r.Code) || r.RetryAfter < 0 || r.RetryAfter > 366*24*time.Hour {
			t.Errorf("%+v", r)
		}
	})
}
