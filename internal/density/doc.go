// Package density plays hosts that are always full, in virtual time, and counts how many
// sandboxes each policy of charging holds on them and for how long they held more than there
// is: what plimsoll sim density prints.
//
// The host is package host, with its gate, ledger and valve: no formula is written here
// again. What is played is runs: real ones from two CSV files, or those of a fitted model.
// What the learned policy knows it knows from other runs than those that are played. Real
// memory is only counted: nobody is killed, so what went over stays over until it ends.
package density
