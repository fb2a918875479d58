package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/vmtest"
)

const (
	mib      = 1 << 20
	pageSize = 4096
)

// work is what a process does to memory. It says "ready" when it is done, and stays.
//
//	touch N     hold N MiB
//	read F N    have N MiB of a file read, which then lie in the page cache
//	thrash N    touch N MiB again and again, without an end
//	creep N M   hold a MiB more every M milliseconds, up to N
//	huge N      hold N MiB of huge pages
func work(args []string) {
	if err := workAt(args[0], args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stay is the end of all work.
func stay() {
	fmt.Println(ready)
	for {
		unix.Pause() // a select without cases would be taken for a deadlock
	}
}

const ready = "ready"

func workAt(what string, args []string) error {
	n, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return err
	}
	switch what {
	case "touch":
		_, err = hold(n, 0)
	case "read":
		var disk *os.File
		disk, err = readThrough(args[0], n)
		defer disk.Close() // never: with its last user the kernel forgets what it cached of a disk
	case "thrash":
		err = thrash(n)
	case "creep":
		err = creep(args[0], n)
	case "huge":
		_, err = hold(n, unix.MAP_HUGETLB)
	default:
		err = fmt.Errorf("no such work: %s", what)
	}
	if err == nil {
		stay()
	}
	return err
}

// hold maps so many MiB and touches each page.
func hold(n, flags int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|flags)
	if err != nil {
		return nil, fmt.Errorf("map %d MiB: %w", n, err)
	}
	touch(mem)
	return mem, nil
}

// touch writes to every page; what differs from page to page no kernel can merge.
func touch(mem []byte) {
	for i := 0; i < len(mem); i += pageSize {
		mem[i]++
	}
}

func readThrough(file string, n int) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	_, err = io.CopyN(io.Discard, f, int64(n)*mib)
	return f, err
}

func thrash(n int) error {
	mem, err := hold(n, 0)
	if err != nil {
		return err
	}
	fmt.Println(ready)
	for {
		touch(mem)
	}
}

func creep(most string, pause int) error {
	n, err := strconv.Atoi(most)
	if err != nil {
		return err
	}
	fmt.Println(ready)
	for range n {
		if _, err := hold(1, 0); err != nil {
			return err
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	return nil
}

// takeOrders is a guest that is a sandbox itself: it touches and gives back memory by the
// lines of its console.
//
//	touch N    hold N MiB more
//	free       give back all that it holds
//	panic      have the kernel die
//	off        end
func takeOrders(console io.Reader) {
	var held [][]byte
	lines := bufio.NewScanner(console)
	answer := func(text string) { report(vmtest.Event{Kind: vmtest.Ready, Text: text}) }
	answer("up")
	for lines.Scan() {
		order := strings.Fields(lines.Text())
		if len(order) == 0 {
			continue
		}
		switch order[0] {
		case "touch":
			n, err := strconv.Atoi(order[len(order)-1])
			if err == nil {
				var mem []byte
				mem, err = hold(n, 0)
				held = append(held, mem)
			}
			if err != nil {
				report(vmtest.Event{Kind: vmtest.Fault, Text: err.Error()})
				return
			}
		case "free":
			for _, mem := range held {
				unix.Munmap(mem)
			}
			held = nil
		case "panic":
			if err := write("/proc/sysrq-trigger", "c"); err != nil {
				report(vmtest.Event{Kind: vmtest.Fault, Text: err.Error()})
			}
		case "off":
			return
		}
		answer(lines.Text())
	}
}
