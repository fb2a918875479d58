// Package vectors holds what every SDK is tested against: pure vectors, each written by the Go package
// whose arithmetic it pins, and the scenarios that are played on a stage (sdk/stage).
//
// README.md says what stands in each file. Read-only; any goroutine may call it.
package vectors

import _ "embed"

//go:embed scenarios.json
var scenarios []byte

// Scenarios is scenarios.json.
func Scenarios() []byte { return scenarios }
