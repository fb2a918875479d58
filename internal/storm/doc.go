// Package storm plays callers who ask for far more than is freed, in virtual time, and counts
// what each kind of client costs and gets: what plimsoll sim storm prints.
//
// The line and the slots are pool.Model, appointments come from package hint with rates that
// were measured, and what waits goes by package backoff, as the SDK does: no rule is written
// here again. What is written here is how others' clients behave, and the world around them.
package storm
