package driver

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrderArrivesAsSent(t *testing.T) {
	want := order{Argv: []string{"a", "", "\xff\n"}, Env: []string{"A=\xfe"}, Dir: "/", UID: 65534, GID: 1, Groups: []uint32{1, 2}}
	var pipe bytes.Buffer
	if err := sendOrder(&pipe, want); err != nil {
		t.Fatal(err)
	}
	pipe.WriteByte(release)
	got, err := readOrder(&pipe)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if rest, _ := io.ReadAll(&pipe); string(rest) != string(release) {
		t.Errorf("the release was read with the order; left is %q", rest)
	}
}

func TestOrderTooLarge(t *testing.T) {
	if err := sendOrder(io.Discard, order{Env: []string{strings.Repeat("x", maxOrder)}}); err == nil {
		t.Error("it was sent")
	}
}

func TestReplyKeepsTheErrno(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{syscall.ENOENT: fs.ErrNotExist, syscall.EACCES: fs.ErrPermission} {
		r := failure("run x", &fs.PathError{Op: "stat", Path: "x", Err: errno})
		if err := r.err(); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "run x: ") {
			t.Errorf("got %v", err)
		}
	}
	if err := failure("run x", errors.New("why")).err(); err.Error() != "run x: why" {
		t.Errorf("got %v", err)
	}
}

func FuzzOrder(f *testing.F) {
	var pipe bytes.Buffer
	sendOrder(&pipe, order{Argv: []string{"a"}})
	f.Add(pipe.Bytes())
	f.Add([]byte{0, 0, 0, 1, 0})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, text []byte) { readOrder(bytes.NewReader(text)) })
}
