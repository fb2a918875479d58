package microvm

import (
	"fmt"
	"io"
	"os"
	"path"
)

// archive writes the kernel's first root file system: an archive of the "newc" kind, as
// Documentation/driver-api/early-userspace/buffer-format.rst has it. Each entry is a header
// of hexadecimal numbers, its name, and its contents, all of them padded to four bytes:
//
//	070701 ino mode nlink uid gid mtime size major minor rmajor rminor namesize check
//
// It is written by ourselves since device nodes are needed, which only root may make on a
// disk and everybody may name in an archive.
type archive struct {
	to   io.Writer
	at   int64 // bytes written
	ino  int
	dirs map[string]bool // those that are in it
	err  error
}

const (
	kindDir  = 0o040000
	kindFile = 0o100000
	kindChar = 0o020000
)

func newArchive(to io.Writer) *archive {
	return &archive{to: to, dirs: map[string]bool{".": true, "/": true}}
}

// dir adds a folder and those above it.
func (a *archive) dir(name string) {
	name = path.Clean(name)
	if a.dirs[name] {
		return
	}
	a.dir(path.Dir(name))
	a.dirs[name] = true
	a.header(name, kindDir|0o755, 0, 0, 0)
}

// file adds the contents of a file of this machine.
func (a *archive) file(name, source string, mode uint32) {
	a.dir(path.Dir(name))
	f, err := os.Open(source)
	if err != nil {
		a.fail(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.fail(err)
		return
	}
	a.header(name, kindFile|mode, info.Size(), 0, 0)
	if a.err != nil {
		return
	}
	n, err := io.CopyN(a.to, f, info.Size()) // one that shrinks meanwhile is an error
	a.at += n
	a.fail(err)
	a.pad()
}

// device adds a node of a character device.
func (a *archive) device(name string, major, minor int) {
	a.dir(path.Dir(name))
	a.header(name, kindChar|0o600, 0, major, minor)
}

// end writes the mark at which the kernel stops reading.
func (a *archive) end() error {
	a.header("TRAILER!!!", 0, 0, 0, 0)
	return a.err
}

func (a *archive) header(name string, mode uint32, size int64, major, minor int) {
	a.ino++
	name = path.Clean(name)
	for len(name) > 1 && name[0] == '/' {
		name = name[1:]
	}
	a.write(fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.ino, mode, 1, 0, 0, 0, size, 0, 0, major, minor, len(name)+1, 0, name))
	a.pad()
}

func (a *archive) pad() { a.write("\x00\x00\x00"[:-a.at&3]) }

func (a *archive) write(text string) {
	if a.err != nil {
		return
	}
	n, err := io.WriteString(a.to, text)
	a.at += int64(n)
	a.fail(err)
}

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}
