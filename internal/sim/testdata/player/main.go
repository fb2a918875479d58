// Player plays seeds one after the other until an invariant does not hold: the smallest
// program that a mutant can be built into.
//
//	player FIRST SEEDS
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/plimsoll-project/plimsoll/internal/sim"
)

func main() {
	first, err := strconv.ParseUint(os.Args[1], 10, 64)
	if err != nil {
		panic(err)
	}
	seeds, err := strconv.ParseUint(os.Args[2], 10, 64)
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(sim.Hunt(first, seeds)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
