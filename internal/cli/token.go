package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke the tokens of consumers",
		Long: `Whoever sends a consumer's token is that consumer. A token is shown once, when it is made; the
configuration keeps its SHA-256 alone. Each change is a generation of the configuration, as
plimsoll config history lists them. Needs the role admin.`,
		Example: `  plimsoll token create --consumer ci
  plimsoll token list
  plimsoll token revoke --consumer ci --hash b4ee4813`,
	}
	return group(cmd, a.tokenCreate(), a.tokenList(), a.tokenRevoke())
}

func (a *app) tokenCreate() *cobra.Command {
	var consumer, out string
	cmd := &cobra.Command{
		Use:   "create --consumer NAME",
		Short: "Make a token, and show it once",
		Long: `Makes a token and brings its hash into force. The token is printed on standard output, and
nothing else is; it can be shown never again. A consumer may have several at once: make the
new one, hand it over, then revoke the old one.`,
		Example: `  plimsoll token create --consumer ci
  TOKEN=$(plimsoll token create --consumer ci)
  plimsoll token create --consumer ci --out ci.token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.createToken(cmd, consumer, out) },
	}
	cmd.Flags().StringVar(&consumer, "consumer", "", "whose token it is, as the configuration names it")
	cmd.Flags().StringVar(&out, "out", "", "write it to this new `file`, readable by you alone, instead of showing it")
	required(cmd, "consumer")
	return cmd
}

func (a *app) createToken(cmd *cobra.Command, consumer, path string) error {
	var out *os.File
	if path != "" {
		var err error
		if out, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return &Failure{ExitUsage, fmt.Errorf("write the token: %w", err), "name a file that is not there yet"}
		}
		defer out.Close()
	}
	token := "plt_" + rand.Text()
	hash := config.TokenHash(sha256.Sum256([]byte(token)))
	generation, err := a.editConsumer(cmd, consumer, func(c *config.Consumer) (bool, error) {
		for _, t := range c.Tokens {
			if t == hash {
				return false, nil // the answer to a former try was lost
			}
		}
		c.AddToken(hash)
		return true, nil
	})
	if err != nil {
		if out != nil {
			os.Remove(path)
		}
		return err
	}
	return a.showToken(consumer, token, hash, generation, out)
}

func (a *app) showToken(consumer, token string, hash config.TokenHash, generation int64, out *os.File) error {
	where := "it is shown this once, and kept nowhere"
	if out != nil {
		if _, err := fmt.Fprintln(out, token); err != nil {
			return &Failure{ExitInternal, fmt.Errorf("write the token: %w", err), "plimsoll token revoke --consumer " + consumer + " --hash " + shortHash(hash) + ", then make another"}
		}
		where = "it is in " + out.Name()
	}
	if a.json() {
		shown := map[string]any{"consumer": consumer, "sha256": hex.EncodeToString(hash[:]), "generation": generation}
		if out == nil {
			shown["token"] = token
		}
		return writeJSON(a.stdout, shown)
	}
	fmt.Fprintf(a.stderr, "a token of consumer %s, in force with generation %d; %s\n", plain(consumer), generation, where)
	if out != nil {
		return nil
	}
	_, err := fmt.Fprintln(a.stdout, token)
	return err
}

func (a *app) tokenList() *cobra.Command {
	consumer := ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens by the beginning of their hashes",
		Example: `  plimsoll token list
  plimsoll token list --consumer ci`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			_, fleet, err := readFleet(cmd.Context(), c)
			if err != nil {
				return err
			}
			if consumer != "" {
				one, err := consumerOf(fleet, consumer)
				if err != nil {
					return err
				}
				fleet.Consumers = []config.Consumer{*one}
			}
			return a.showTokens(fleet)
		},
	}
	cmd.Flags().StringVar(&consumer, "consumer", "", "only this one's")
	return cmd
}

// listedToken is one line of token list.
type listedToken struct {
	Consumer string        `json:"consumer"`
	Roles    []config.Role `json:"roles"`
	SHA256   string        `json:"sha256,omitempty"` // empty: the consumer has no token
}

func (a *app) showTokens(fleet *config.Fleet) error {
	list := []listedToken{}
	t := newTable("CONSUMER", "ROLES", "SHA-256 OF THE TOKEN")
	for _, c := range fleet.Consumers {
		roles := rolesOf(c)
		if len(c.Tokens) == 0 {
			list = append(list, listedToken{Consumer: c.Name, Roles: c.Roles})
			t.row(c.Name, roles, "none: nobody can be it")
		}
		for _, hash := range c.Tokens {
			list = append(list, listedToken{c.Name, c.Roles, hex.EncodeToString(hash[:])})
			t.row(c.Name, roles, shortHash(hash)+"…")
		}
	}
	if a.json() {
		return writeJSON(a.stdout, map[string]any{"tokens": list})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.stdout, "no consumers: plimsoll config apply brings some")
		return err
	}
	return t.write(a.stdout, "")
}

func rolesOf(c config.Consumer) string {
	words := make([]string, len(c.Roles))
	for i, r := range c.Roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

func shortHash(h config.TokenHash) string { return hex.EncodeToString(h[:6]) }

func (a *app) tokenRevoke() *cobra.Command {
	var (
		consumer, prefix string
		stdin            bool
	)
	cmd := &cobra.Command{
		Use:   "revoke --consumer NAME (--hash PREFIX | --token-stdin)",
		Short: "Take a token back",
		Long: `Takes a token back: every replica refuses it within seconds. It is named by the beginning of
its hash, as plimsoll token list shows it, or given on standard input; never on the command
line, which every user of the machine can read.`,
		Example: `  plimsoll token revoke --consumer ci --hash b4ee4813
  plimsoll token revoke --consumer ci --token-stdin < ci.token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (prefix != "") == stdin {
				return mistake(cmd, "name the token: by --hash, or by --token-stdin")
			}
			match, err := matchToken(cmd, prefix)
			if err != nil {
				return err
			}
			return a.revokeToken(cmd, consumer, match)
		},
	}
	cmd.Flags().StringVar(&consumer, "consumer", "", "whose token it is")
	cmd.Flags().StringVar(&prefix, "hash", "", "the first hex digits of its SHA-256, at least 4")
	cmd.Flags().BoolVar(&stdin, "token-stdin", false, "read the token from standard input")
	required(cmd, "consumer")
	return cmd
}

// matchToken tells the tokens that are meant.
func matchToken(cmd *cobra.Command, prefix string) (func(config.TokenHash) bool, error) {
	if prefix != "" {
		prefix = strings.ToLower(strings.TrimSuffix(prefix, "…"))
		if len(prefix) < 4 || strings.Trim(prefix, "0123456789abcdef") != "" {
			return nil, mistake(cmd, "--hash takes at least 4 hex digits, as plimsoll token list shows them")
		}
		return func(h config.TokenHash) bool { return strings.HasPrefix(hex.EncodeToString(h[:]), prefix) }, nil
	}
	text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxToken))
	if err != nil || strings.TrimSpace(string(text)) == "" {
		return nil, mistake(cmd, "no token came on standard input")
	}
	hash := config.TokenHash(sha256.Sum256([]byte(strings.TrimSpace(string(text)))))
	return func(h config.TokenHash) bool { return h == hash }, nil
}

func (a *app) revokeToken(cmd *cobra.Command, consumer string, match func(config.TokenHash) bool) error {
	var revoked config.TokenHash
	left := 0
	generation, err := a.editConsumer(cmd, consumer, func(c *config.Consumer) (bool, error) {
		var matching []config.TokenHash
		for _, t := range c.Tokens {
			if match(t) {
				matching = append(matching, t)
			}
		}
		switch {
		case len(matching) == 0 && revoked != (config.TokenHash{}):
			return false, nil // the answer to a former try was lost
		case len(matching) == 0:
			return false, &Failure{ExitUsage, fmt.Errorf("consumer %s has no such token", consumer), "plimsoll token list --consumer " + consumer}
		case len(matching) == 1:
			revoked = matching[0]
			c.RemoveToken(revoked)
			left = len(c.Tokens)
			return true, nil
		}
		return false, &Failure{ExitUsage, fmt.Errorf("%d tokens of consumer %s begin like that", len(matching), consumer), "give more digits of the one that is meant"}
	})
	switch {
	case err != nil:
		return err
	case a.json():
		return writeJSON(a.stdout, map[string]any{"consumer": consumer, "sha256": hex.EncodeToString(revoked[:]), "left": left, "generation": generation})
	}
	_, err = fmt.Fprintf(a.stdout, "token %s… of consumer %s is revoked with generation %d; it has %s left\n", shortHash(revoked), plain(consumer), generation, plural(int64(left), "token", "tokens"))
	return err
}

// editTries bounds how often a change is made anew because somebody else's came first.
const editTries = 5

// editConsumer changes one consumer of the configuration in force, and nothing else of it.
// Edit says whether there is anything to change.
func (a *app) editConsumer(cmd *cobra.Command, name string, edit func(*config.Consumer) (bool, error)) (generation int64, err error) {
	c, _, err := a.connect()
	if err != nil {
		return 0, err
	}
	for range editTries {
		generation, err = editOnce(cmd.Context(), c, name, edit)
		var unreachable *client.Unreachable
		if !errors.Is(err, api.GenerationConflict) && !errors.As(err, &unreachable) {
			break
		}
	}
	return generation, err
}

func editOnce(ctx context.Context, c *client.Client, name string, edit func(*config.Consumer) (bool, error)) (int64, error) {
	doc, fleet, err := readFleet(ctx, c)
	if err != nil {
		return 0, err
	}
	consumer, err := consumerOf(fleet, name)
	if err != nil {
		return 0, err
	}
	changed, err := edit(consumer)
	if err != nil || !changed {
		return doc.Generation, err
	}
	doc, err = c.PutConfig(ctx, api.ConfigChange{Document: fleet.Document(), Generation: doc.Generation})
	if err != nil {
		return 0, err
	}
	return doc.Generation, nil
}

// readFleet reads the configuration in force.
func readFleet(ctx context.Context, c *client.Client) (*api.ConfigDocument, *config.Fleet, error) {
	doc, err := c.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	fleet, err := parseInForce(doc)
	return doc, fleet, err
}

func consumerOf(fleet *config.Fleet, name string) (*config.Consumer, error) {
	if c, ok := fleet.Consumer(name); ok {
		return c, nil
	}
	var names []string
	for _, c := range fleet.Consumers {
		names = append(names, c.Name)
	}
	return nil, &Failure{
		ExitUsage, fmt.Errorf("the configuration names no consumer %q; there is %s", name, cmp.Or(strings.Join(names, ", "), "none")),
		"add it to fleet.consumers, then plimsoll config apply",
	}
}
