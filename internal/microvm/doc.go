// Package microvm boots small Linux machines under QEMU in software emulation, for tests: no
// KVM is needed, no privilege, no network, and nothing is installed into the kernel that runs.
//
// A machine is QEMU's microvm with Debian's cloud kernel and a root file system in memory that
// is made anew for each: one static program as init, the kernel modules that it must load, and
// the files that it wants. Its console is the one way in and out. It is up in 2 to 3 s.
//
//	Find ──▶ Tools ──Start──▶ Machine ──Line, Line, …──▶ io.EOF when it is off
//
// scripts/setup puts the two things in place that are not of this project. Where one is missing
// Find says which, and how it is had; it never makes do without.
//
// A Machine ends with the process that started it, and at the latest by Close. Line has one
// caller; everything else may be called from any goroutine.
package microvm
