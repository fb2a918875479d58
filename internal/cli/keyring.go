package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/keyring"
	"github.com/plimsoll-project/plimsoll/internal/wholefile"
	"github.com/plimsoll-project/plimsoll/ticket"
)

func (a *app) keyringCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "keyring",
		Short: "Make, list and rotate the keys that tickets are signed with",
		Long: `Makes, lists and rotates the keys that tickets are signed with. They lie in one file outside
the store, the same for all replicas, which follow its changes by themselves. Run these
commands where that file is, as a user who may write it, and hand the file on if replicas
on other machines read copies of it.`,
		Example: `  plimsoll keyring list
  plimsoll keyring rotate
  plimsoll keyring audience sandboxes --out sandboxes-keys.json`,
	}
	cmd.PersistentFlags().StringVar(&w.keys, "keys", "", "the keys `file`; else that of --config, or keys.json in the data directory")
	cmd.PersistentFlags().StringVar(&w.config, "config", "", "configuration `file` that names the keys file")
	return group(cmd, a.keyringCreate(&w), a.keyringList(&w), a.keyringRotate(&w), a.keyringAudience(&w))
}

// where says which keys file is meant.
type where struct{ keys, config string }

func (a *app) keysFile(w *where) (string, error) {
	if w.keys != "" {
		return filepath.Abs(w.keys)
	}
	if w.config == "" {
		if named := os.Getenv("PLIMSOLL_KEYS"); named != "" {
			return named, nil
		}
		return filepath.Join(first(a.dataDir, os.Getenv("PLIMSOLL_DATA_DIR"), discover.DefaultDataDir()), "keys.json"), nil
	}
	f, err := parseConfig(w.config)
	if err != nil {
		return "", err
	}
	if err := config.Overlay(&f.Local, os.Getenv); err != nil {
		return "", err
	}
	if a.dataDir != "" {
		f.Local.DataDir = a.dataDir
	}
	return f.Local.KeysFile(), nil
}

// openKeyring reads the keys file that is meant.
func (a *app) openKeyring(w *where) (string, ticket.Keyring, error) {
	path, err := a.keysFile(w)
	if err != nil {
		return "", ticket.Keyring{}, err
	}
	_, ring, err := keyring.Open(path)
	return path, ring, keysFailure(path, err)
}

func keysFailure(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &Failure{ExitUsage, fmt.Errorf("there is no keys file %s", path), "name it with --keys or --config, or the data directory with --data-dir; plimsoll keyring create makes the first one"}
	case errors.Is(err, fs.ErrPermission):
		return &Failure{ExitNotAllowed, err, "run as the user who runs the replicas"}
	}
	return &Failure{ExitConfig, err, "restore the file from a backup"}
}

func (a *app) keyringCreate(w *where) *cobra.Command {
	return &cobra.Command{
		Use:   "create",
		Short: "Make a keys file with one key, where there is none",
		Long: `Makes a keys file with one key, where there is none. plimsoll up makes its own; replicas of
one PostgreSQL need the same file everywhere, so that is made once, by hand.`,
		Example: "  plimsoll keyring create --keys /etc/plimsoll/keys.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := a.keysFile(w)
			if err != nil {
				return err
			}
			if _, err := os.Lstat(path); err == nil {
				return &Failure{ExitUsage, fmt.Errorf("%s is there already", path), "plimsoll keyring list shows it, plimsoll keyring rotate brings a new key in"}
			}
			ring, err := keyring.Create(path, time.Now())
			switch {
			case err != nil:
				return &Failure{ExitUsage, err, "name a file in a directory that is there and that you can write"}
			case a.json():
				return writeJSON(a.stdout, map[string]any{"file": path, "key": ring.IDs()})
			}
			_, err = fmt.Fprintf(a.stdout, "%s holds the key %s now; every replica needs this same file, and nobody else may read it\n", path, ring.IDs())
			return err
		},
	}
}

func (a *app) keyringAudience(w *where) *cobra.Command {
	var (
		out  string
		show bool
	)
	cmd := &cobra.Command{
		Use:   "audience NAME (--out FILE | --show)",
		Short: "Derive the keys by which a substrate verifies its tickets",
		Long: `Derives the keys by which the substrate of an audience (of a pool with placement: none) verifies
tickets by itself. They are secret: whoever has them can make tickets for this audience, and
for no other. After each rotation's first step they are derived anew.`,
		Example: `  plimsoll keyring audience sandboxes --out sandboxes-keys.json
  plimsoll keyring audience sandboxes --show | ssh provider 'umask 077; cat > keys.json'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (out != "") == show {
				return mistake(cmd, "say where the keys go: --out FILE, or --show for standard output")
			}
			_, ring, err := a.openKeyring(w)
			if err != nil {
				return err
			}
			keys, err := ring.Audience(ticket.ForSubstrate(args[0]))
			if err != nil {
				return mistake(cmd, "%s", err)
			}
			a.doubtAudience(cmd.Context(), args[0])
			data, err := keys.EncodeFile()
			switch {
			case err != nil:
				return err
			case show:
				_, err = a.stdout.Write(data)
				return err
			}
			if err := wholefile.Write(out, data, 0o600, true); err != nil {
				return &Failure{ExitUsage, err, "name a file in a directory that you can write"}
			}
			_, err = fmt.Fprintf(a.stdout, "%s holds the keys of audience %s now (%s), readable by you alone\n", out, plain(args[0]), strings.Join(keys.KeyIDs(), ", "))
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write them to this `file`, readable by you alone")
	cmd.Flags().BoolVar(&show, "show", false, "write them to standard output")
	return cmd
}

// doubtAudience says so when no pool demands tickets of that name: its keys would verify none.
// Nobody need be there to be asked.
func (a *app) doubtAudience(ctx context.Context, name string) {
	c, _, err := a.connect()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, err := c.Pools(ctx)
	if err != nil {
		return
	}
	var known []string
	for _, p := range list.Pools {
		if p.Audience == name {
			return
		}
		if p.Audience != "" {
			known = append(known, p.Audience)
		}
	}
	fmt.Fprintf(a.stderr, "plimsoll: no pool demands tickets of the audience %s now; there is %s\n", plain(name), plain(first(strings.Join(known, ", "), "none")))
}

func (a *app) keyringList(w *where) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the keys, what each is good for, and who has loaded it",
		Long: `Lists the keys of the file: what each is good for, since when, and which replicas have loaded
it. Secrets are not shown. Needs the role operator to ask the replicas.`,
		Example: `  plimsoll keyring list
  plimsoll keyring list --config plimsoll.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, ring, err := a.openKeyring(w)
			if err != nil {
				return err
			}
			holders, unknown := a.askHolders(cmd.Context(), nil)
			list := listKeys(ring, holders, unknown != nil, time.Now())
			if a.json() {
				return writeJSON(a.stdout, map[string]any{"file": path, "keys": list})
			}
			if err := drawKeys(a.stdout, path, list); err != nil {
				return err
			}
			if unknown != nil {
				fmt.Fprintln(a.stderr, "plimsoll: who has loaded them is not known: "+plain(judge(unknown).detail))
			}
			if exposed := keyring.Exposed(path); exposed != "" {
				fmt.Fprintln(a.stderr, "warning: "+exposed)
			}
			return nil
		},
	}
}

// listedKey is one line of keyring list.
type listedKey struct {
	ID       string     `json:"id"`
	State    string     `json:"state"`           // next, signing or retired
	Since    *time.Time `json:"since,omitempty"` // in that state
	LoadedBy []string   `json:"loaded_by"`       // replicas
	Lacking  []string   `json:"not_loaded_by,omitempty"`
	Unknown  bool       `json:"unknown,omitempty"` // the replicas could not be asked

	age string
}

func listKeys(ring ticket.Keyring, holders []ticket.Holder, unknown bool, now time.Time) (list []listedKey) {
	state := "retired"
	for _, r := range ring.Roots() {
		k := listedKey{ID: r.ID(), State: state, LoadedBy: []string{}, Unknown: unknown, age: "-"}
		if r.State() == ticket.Signing {
			k.State, state = "signing", "next"
		}
		if since := r.Since(); !since.IsZero() {
			k.Since, k.age = &since, age(now.Sub(since))
		}
		for _, h := range holders {
			if knows(h, r.ID()) {
				k.LoadedBy = append(k.LoadedBy, h.Name)
			} else {
				k.Lacking = append(k.Lacking, h.Name)
			}
		}
		list = append(list, k)
	}
	if state == "retired" { // nothing signs
		for i := range list {
			list[i].State = "next"
		}
	}
	return list
}

func drawKeys(w io.Writer, path string, list []listedKey) error {
	t := newTable("KEY", "STATE", "SINCE", ">AGE", "LOADED BY")
	for _, k := range list {
		since := "-"
		if k.Since != nil {
			since = clock(*k.Since)
		}
		loaded := dash(strings.Join(k.LoadedBy, ", "))
		switch {
		case k.Unknown:
			loaded = "?"
		case len(k.Lacking) == 0 && len(k.LoadedBy) > 0:
			loaded = "all: " + loaded
		case len(k.Lacking) > 0:
			loaded += "; not by " + strings.Join(k.Lacking, ", ")
		}
		t.row(k.ID, k.State, since, k.age, loaded)
	}
	if err := t.write(w, ""); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "in %s\n", path)
	return err
}
