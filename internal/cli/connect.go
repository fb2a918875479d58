package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/link"
)

// way is how to reach the server and the agent.
type way struct {
	url    string
	token  string
	ca     string // file of the authority to trust; empty: the system's
	socket string // said by the environment; else empty
	note   discover.Note
}

// connect finds the server and makes a client for it.
func (a *app) connect() (*client.Client, way, error) {
	w, err := a.find()
	if err != nil {
		return nil, w, err
	}
	options := []client.Option{client.WithUserAgent("plimsoll/" + a.version)}
	if w.ca != "" {
		pool, err := link.Authority(w.ca)
		if err != nil {
			return nil, w, &Failure{ExitUsage, err, "--ca FILE, or PLIMSOLL_CA"}
		}
		options = append(options, client.WithAuthority(pool))
	}
	c, err := client.New(w.url, w.token, options...)
	if err != nil {
		return nil, w, &Failure{ExitUsage, err, "--url http://127.0.0.1:7070"}
	}
	return c, w, nil
}

// find looks at flags first, then at the environment, then at the note of a server that
// runs on this machine.
func (a *app) find() (way, error) {
	w := way{url: first(a.url, os.Getenv("PLIMSOLL_URL")), socket: os.Getenv("PLIMSOLL_SOCKET")}
	dir := first(a.dataDir, os.Getenv("PLIMSOLL_DATA_DIR"), discover.DefaultDataDir())
	note, err := discover.Read(dir)
	switch {
	case err == nil:
		w.note = note
	case w.url == "":
		return w, nowhere(dir, err)
	}
	if err == nil && note.URL == "" && w.url == "" {
		return w, &Failure{ExitUnavailable, fmt.Errorf("the agent of %s runs without a replica", dir), "plimsoll host show and plimsoll gate ask the agent itself; or name a server with --url URL"}
	}
	named := w.url
	w.url = first(named, note.URL)
	if w.ca = first(a.ca, os.Getenv("PLIMSOLL_CA")); w.ca == "" && isAt(note, named) {
		w.ca = note.CA
	}
	tokenFile := a.tokenFile
	if tokenFile == "" && os.Getenv("PLIMSOLL_TOKEN") != "" {
		w.token = strings.TrimSpace(os.Getenv("PLIMSOLL_TOKEN"))
		return w, nil
	}
	// The token of the note is for its own server; another one is not told it.
	if tokenFile == "" && isAt(note, named) {
		tokenFile = note.TokenFile
	}
	if tokenFile != "" {
		w.token, err = readToken(tokenFile)
		return w, err
	}
	return w, nil
}

// Token is what --token-file names, or the environment holds, for a command that comes from elsewhere; empty
// where neither does.
func Token(c *cobra.Command) (string, error) {
	if f := c.Flags().Lookup("token-file"); f != nil && f.Value.String() != "" {
		return readToken(f.Value.String())
	}
	return strings.TrimSpace(os.Getenv("PLIMSOLL_TOKEN")), nil
}

// isAt says that no other server is named than those of the note: it may be one of several.
func isAt(n discover.Note, named string) bool {
	all := strings.Split(n.URL, ",")
	for one := range strings.SplitSeq(named, ",") {
		if one != "" && !slices.Contains(all, one) {
			return false
		}
	}
	return true
}

func nowhere(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Failure{
			ExitUnavailable,
			fmt.Errorf("no server was named, and none has left word in %s", dir),
			"is `plimsoll up` running? Else name it: --url URL --token-file FILE, or --data-dir DIR",
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return &Failure{ExitNotAllowed, err, "run as the user who runs `plimsoll up`, or name it: --url URL --token-file FILE"}
	}
	return &Failure{ExitUnavailable, err, "restart `plimsoll up`, or name it: --url URL --token-file FILE"}
}

// maxToken bounds a token file, so that a wrong file is not read whole.
const maxToken = 4096

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", tokenFailure(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", tokenFailure(err)
	}
	token := strings.TrimSpace(string(data))
	if len(data) > maxToken || token == "" {
		return "", &Failure{ExitUsage, fmt.Errorf("%s holds no token", path), "name a file that holds the token and nothing else"}
	}
	return token, nil
}

func tokenFailure(err error) error {
	status := ExitUsage
	if errors.Is(err, fs.ErrPermission) {
		status = ExitNotAllowed
	}
	return &Failure{status, fmt.Errorf("read the token: %w", err), "name a readable file with --token-file, or set PLIMSOLL_TOKEN"}
}

// first returns the first that is not empty.
func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
