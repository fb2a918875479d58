// Player goes on the hunt that its argument describes in JSON: the smallest program that a
// mutant can be built into.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/plimsoll-project/plimsoll/internal/sim"
)

func main() {
	var h sim.Hunt
	if err := json.Unmarshal([]byte(os.Args[1]), &h); err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(h.Run()); err != nil {
		log.Fatal(err)
	}
}
