package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// metrics are what /metrics said: series, labels and all -> value.
type metrics map[string]float64

// scrape reads the host's /metrics.
func (n *node) scrape(ctx context.Context) (metrics, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := n.wire.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("read /metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read /metrics: %s", resp.Status)
	}
	return parseMetrics(resp.Body)
}

// parseMetrics reads the text format:
//
//	# HELP plimsoll_host_reserved_bytes Memory promised to boots that have not happened.
//	plimsoll_host_reserved_bytes{host="committed"} 0
func parseMetrics(r io.Reader) (metrics, error) {
	m := metrics{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		series, value, ok := cutLast(lines.Text(), " ")
		if !ok || strings.HasPrefix(series, "#") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("read /metrics: %q is no number", value)
		}
		m[series] = v
	}
	return m, lines.Err()
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// sum adds all series of a name that carry a label; label "" takes every one. False means
// that there is none: an absent gauge is not zero.
func (m metrics) sum(name, label string) (total int64, found bool) {
	for series, v := range m {
		bare, labels, _ := strings.Cut(series, "{")
		if bare == name && strings.Contains("{"+labels, label) {
			total, found = total+int64(v), true
		}
	}
	return total, found
}
