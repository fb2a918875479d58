// Package hostmem measures real memory: what the machine and every cgroup above the
// sandboxes still have, what each sandbox holds, and how hard the kernel is pressed.
//
// It decides nothing. It turns kernel text into gate.Limit and Resident, and errs on
// the safe side where the text leaves a doubt: a field that is missing makes less room,
// never more (but for swap, on a kernel that does not account for it).
//
//	machine: used = MemTotal − MemAvailable + swapped out
//	cgroup:  used = usage − clean file cache + swapped out
//	sandbox: resident = anon + shmem + swapped out
//
// A cgroup's limit is the lesser of memory.max and memory.high. Memory in huge pages is in none
// of these sums: it is counted in pages, in a dimension of its own.
//
// Worked: a cgroup with a limit of 2,048 MiB, a usage of 1,900 MiB of which 1,200 MiB
// are file pages (100 MiB of them dirty) and 50 MiB swapped out has used
// 1,900 − 1,100 + 50 = 850 MiB, so 1,198 MiB are free under it.
//
// Every file is read below an injected root, "/" in production, so that tests measure
// fixture trees. A Machine never changes after Discover and may be used from any
// goroutine. Cgroups are named by the path that the kernel shows in /proc/<pid>/cgroup.
package hostmem
