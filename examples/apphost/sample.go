package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sample is an app to try with: it says who it is, and counts visits in a file, so that one sees what
// outlives its sleep. It ends by SIGTERM as any process does.
func sample(ctx context.Context) error {
	socket, name := os.Getenv("APP_SOCKET"), os.Getenv("APP_NAME")
	if socket == "" {
		return fmt.Errorf("APP_SOCKET is not set: it names the Unix socket to listen at")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	born := time.Now()
	var mu sync.Mutex // guards the file of visits
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow, err := time.ParseDuration(r.URL.Query().Get("slow")); err == nil {
			time.Sleep(min(slow, time.Minute))
		}
		mu.Lock()
		defer mu.Unlock()
		n, err := visit("visits")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "app %s, process %d, awake for %s, visit %d\n", name, os.Getpid(), time.Since(born).Round(time.Millisecond), n)
	})}
	go func() { <-ctx.Done(); server.Close() }()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// visit counts one more in a file of the app's folder.
func visit(file string) (n int, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err != nil && !os.IsNotExist(err) {
		return 0, fmt.Errorf("read how many came: %w", err)
	}
	return n + 1, os.WriteFile(file, []byte(strconv.Itoa(n+1)+"\n"), 0o600)
}
