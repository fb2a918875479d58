// Package discover is the note that a running `plimsoll up` leaves in its data directory, so
// that other commands on the machine find its server, its token and its boot seam:
//
//	<data dir>/client.json  {"url": …, "token_file": …, "socket": …}
//
// It holds no secret itself. Nothing here is shared state; any goroutine may call it.
package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"

	"github.com/plimsoll-project/plimsoll/internal/wholefile"
)

// Name is the note's name in the data directory.
const Name = "client.json"

// Note says how a running control plane is reached.
type Note struct {
	URL       string `json:"url"`
	TokenFile string `json:"token_file"`
	Socket    string `json:"socket"` // the boot seam of this machine's agent
	// Sockets are those of all agents of a fleet on this machine. host id -> path
	Sockets map[string]string `json:"sockets,omitempty"`
	CA      string            `json:"ca,omitempty"` // file of the authority that signed the server's certificate
}

// DefaultDataDir is where `plimsoll up` keeps its data when nothing else is said:
// /var/lib/plimsoll for root, else below the user's state directory.
func DefaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/plimsoll"
	}
	if state := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "plimsoll")
	}
	home, err := os.UserHomeDir()
	if u, unknown := user.Current(); err != nil && unknown == nil {
		home = u.HomeDir
	}
	if !filepath.IsAbs(home) {
		return "/var/lib/plimsoll" // whoever may not write there is told so, and says where
	}
	return filepath.Join(home, ".local", "state", "plimsoll")
}

// Read returns the note in a data directory. The error is fs.ErrNotExist where there is none.
func Read(dir string) (Note, error) {
	path := filepath.Join(dir, Name)
	data, err := os.ReadFile(path)
	if err != nil {
		return Note{}, fmt.Errorf("read how to reach the server: %w", err)
	}
	var n Note
	if err := json.Unmarshal(data, &n); err != nil {
		return Note{}, fmt.Errorf("read how to reach the server: %s is damaged (%w); restart plimsoll up, it writes it anew", path, err)
	}
	return n, nil
}

// Write leaves the note in a data directory, all of it or nothing.
func (n Note) Write(dir string) error {
	data, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	if err := wholefile.Write(filepath.Join(dir, Name), append(data, '\n'), 0o644, false); err != nil {
		return fmt.Errorf("write how to reach the server: %w", err)
	}
	return nil
}

// Remove takes the note back; that there is none is no error.
func Remove(dir string) error {
	err := os.Remove(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
