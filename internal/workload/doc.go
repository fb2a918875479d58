// Package workload is what is played: sandboxes as they ask, live and fill memory. Runs tell
// what was resident in each second of a life, arrivals when which sandbox was asked for and how
// long it lived. Both are read from an operator's own CSV files, or drawn from a model that was
// fitted to real ones, of which only figures are in here.
//
// Nothing here decides anything, keeps state or looks at a clock: the same random source gives
// the same draws on any machine. Everything may be called from several goroutines, each with a
// random source of its own.
package workload
