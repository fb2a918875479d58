package cli

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wanted: a flag's type -> what its value looks like.
var wanted = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number of at least 0",
	"duration": "a time with its unit, as in 30s, 30m or 2h", "bool": "true or false",
}

// flagMistake says what is wrong with a flag in words that do not speak of Go.
func flagMistake(cmd *cobra.Command, err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return mistake(cmd, "%s", err)
	}
	flag := wrong.GetFlag()
	if looks := wanted[flag.Value.Type()]; looks != "" {
		return mistake(cmd, "--%s %s: it takes %s", flag.Name, wrong.GetValue(), looks)
	}
	return mistake(cmd, "--%s %s: %s", flag.Name, wrong.GetValue(), wrong.Unwrap())
}

// argMistake names the argument that is missing, or the first one too many.
func argMistake(cmd *cobra.Command, args []string, err error) error {
	names := arguments(cmd)
	switch {
	case len(args) < len(names):
		return mistake(cmd, "%s is missing", names[len(args)])
	case len(names) > 0 && len(args) > len(names):
		return mistake(cmd, "%q is one argument too many", args[len(names)])
	}
	return mistake(cmd, "%s", err)
}

// arguments are the names of those that a command must have.
func arguments(cmd *cobra.Command) (names []string) {
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.ToUpper(word) != word || strings.ContainsAny(word[:1], "-[(") {
			break
		}
		names = append(names, strings.TrimSuffix(word, "…"))
	}
	return names
}

// Mistake is an error on the command line of a command that comes from elsewhere.
func Mistake(cmd *cobra.Command, format string, args ...any) error {
	return mistake(cmd, format, args...)
}

// NotValid is a configuration that this machine cannot follow: what it names is not there, in
// use, or not this user's. The error says what to do.
func NotValid(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Failure{Status: ExitNotAllowed, Err: err}
	}
	return &Failure{Status: ExitConfig, Err: err}
}
