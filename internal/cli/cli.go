// Package cli is the commands of the one binary: it asks a running control plane through the
// SDK, shows what came of it, and turns a no into two lines and an exit status. It decides
// nothing; what it prints of a host was computed by that host's agent.
//
// Run is called once, by main.
package cli

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Options are what main hands in.
type Options struct {
	Version string           // of this build
	Extra   []*cobra.Command // that need more than an API: up, demo, bench
	Stdout  io.Writer        // nil: the process's own
	Stderr  io.Writer        // nil: the process's own
}

// Run carries out one command line and returns the exit status.
func Run(ctx context.Context, args []string, o Options) int {
	a := newApp(o)
	root := a.root(o.Extra)
	root.SetArgs(args)
	return a.report(root.ExecuteContext(ctx))
}

// New returns the whole tree of commands, for documentation and completion.
func New(o Options) *cobra.Command { return newApp(o).root(o.Extra) }

// app is what the commands share.
type app struct {
	version string
	stdout  io.Writer
	stderr  io.Writer

	// Flags of every command.
	url       string
	tokenFile string
	ca        string
	dataDir   string
	output    string
}

func newApp(o Options) *app {
	a := &app{version: o.Version, stdout: o.Stdout, stderr: o.Stderr}
	if a.stdout == nil {
		a.stdout = os.Stdout
	}
	if a.stderr == nil {
		a.stderr = os.Stderr
	}
	return a
}

const rootLong = `Admission control for sandbox fleets: to every create a yes with a ticket, a not now with a
time to come back, or a not ever with the reason.

Commands find a server that runs on this machine by the note that "plimsoll up" leaves in its
data directory. Another one is named by --url and --token-file, or by the environment:
PLIMSOLL_URL, PLIMSOLL_TOKEN, PLIMSOLL_DATA_DIR, PLIMSOLL_SOCKET (of the host's agent).

Exit status: 0, or that of the sandbox; 64 a mistake on the command line, 69 nobody can be
reached, 70 an internal error, 75 not now (ask again), 77 not allowed, 78 a configuration
that is not valid, or that this machine cannot follow.`

func (a *app) root(extra []*cobra.Command) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "plimsoll",
		Short: "Admission control for sandbox fleets",
		Long:  rootLong,
		Example: `  plimsoll run --class small -- python3 task.py
  plimsoll host show host-1
  plimsoll admissions --state running -o json`,
	},
		a.runCommand(), a.admissionsCommand(), a.hostsCommand(), a.hostCommand(), a.poolsCommand(), a.poolCommand(), a.classesCommand(),
		a.modeCommand(), a.bypassCommand(),
		a.observeCommand(), a.admittableCommand(), a.explainCommand(), a.whatIfCommand(), a.shadowCommand(), a.gateCommand(), a.releaseCommand(), a.reconcileCommand(), a.whoamiCommand(), a.configCommand(), a.tokenCommand(), a.keyringCommand(), a.ticketCommand(), a.auditCommand(), a.replicasCommand(), a.versionCommand(),
	)
	for _, cmd := range extra {
		if cmd.HasSubCommands() && !cmd.Runnable() {
			group(cmd)
		}
		root.AddCommand(cmd)
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	a.addFlags(root)
	root.SetFlagErrorFunc(flagMistake)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.checkOutput(cmd) }
	checkArgs(root)
	return root
}

func (a *app) addFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "the server, as in http://127.0.0.1:7070, or several, separated by commas")
	flags.StringVar(&a.tokenFile, "token-file", "", "a file that holds the token and nothing else")
	flags.StringVar(&a.ca, "ca", "", "a file with the authority that signed the server's certificate (PEM)")
	flags.StringVar(&a.dataDir, "data-dir", "", "data directory of a plimsoll up on this machine")
	flags.StringVarP(&a.output, "output", "o", "table", "table or json")
	// An error here would mean that the flag is not there.
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	_ = root.MarkPersistentFlagDirname("data-dir")
}

func (a *app) checkOutput(cmd *cobra.Command) error {
	if a.output != "table" && a.output != "json" {
		given := a.output
		a.output = "table"
		return mistake(cmd, "-o %s: there is table and json", given)
	}
	return nil
}

func (a *app) json() bool { return a.output == "json" }

// group makes a command that only holds others: called by itself it shows its help, and
// with a name that it does not know it says so.
func group(cmd *cobra.Command, members ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(members...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		text := "there is no command " + args[0]
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return mistake(cmd, "%s", text)
	}
	return cmd
}

// checkArgs makes every complaint about arguments, of all commands, a mistake on the
// command line.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return argMistake(cmd, args, err)
			}
			return nil
		}
	}
	for _, member := range cmd.Commands() {
		checkArgs(member)
	}
}
