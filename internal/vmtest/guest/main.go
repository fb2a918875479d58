// Command guest is the one program of a test machine: its init, the checks of the agent that
// runs there, the work that its sandboxes do, and a guest that is a sandbox itself.
//
//	/init host PATTERN  start the agent, and check it
//	/init bare          the same where the kernel offers the agent little
//	/init touch         touch memory as the console orders it
//	/init work ...      be a sandbox, or something beside the sandboxes
//
// See package vmtest, which boots it.
package main

import (
	"fmt"
	"os"
	"regexp"

	"github.com/plimsoll-project/plimsoll/internal/vmtest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "guest: this is the init of a test machine: see internal/vmtest")
		os.Exit(2)
	}
	if os.Getpid() == 1 {
		initial(os.Args[1:])
	}
	switch os.Args[1] {
	case "host":
		checkHost(regexp.MustCompile(os.Args[2]))
	case "bare":
		checkBare()
	case "touch":
		takeOrders(os.Stdin)
	case "work":
		work(os.Args[2:])
	}
}

func report(e vmtest.Event) { fmt.Println(e.Line()) }
