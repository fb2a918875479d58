// Package driver boots sandboxes that are plain process trees, each in its own cgroup where
// the machine allows it.
//
// A sandbox is prepared first and released later, so that the agent has it on record before
// the first instruction of its command runs:
//
//	Prepare ──▶ held ──Go──▶ running ──main process ends, Stop──▶ ended
//	              └──Abort, helper dies, agent dies──▶ ended, nothing ran
//
// While held it is our own binary, started again as `plimsoll sandbox-exec`, which waits for
// one byte on a pipe. The pipe's other end closes with the agent, however that dies, and the
// helper then ends without running anything.
//
// A sandbox ends with its main process. What is left of its tree is then killed and its
// cgroup removed, before Wait returns: its memory is free when its end is told.
//
// The driver decides nothing about room or tickets. All its methods, and a Process's, may be
// called from any goroutine. Each Process has one goroutine, which ends with it or by Detach.
package driver
