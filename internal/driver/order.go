package driver

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// order is what the held helper is told to become. It goes over the pipe and not by the
// helper's own environment and arguments: an LD_PRELOAD in there would act while the helper
// is still root, and arguments can be read by everyone. It is encoded by gob, since arguments are bytes and JSON
// would mend those that are no UTF-8.
type order struct {
	Argv   []string
	Env    []string
	Dir    string
	UID    uint32
	GID    uint32
	Groups []uint32
}

// maxOrder bounds an order. The kernel takes about 2 MiB of arguments and environment.
const maxOrder = 16 << 20

// release is the byte that lets a held sandbox go.
const release = 'g'

// reply is what the helper answers: once when it is ready, and again only if the command
// could not be run. A command that runs says nothing, but closes the pipe.
type reply struct {
	Ready bool          `json:"ready,omitempty"`
	Doing string        `json:"doing,omitempty"` // what was attempted
	Errno syscall.Errno `json:"errno,omitempty"`
	Why   string        `json:"why,omitempty"` // where there is no errno
}

func sendOrder(w io.Writer, o order) error {
	body := bytes.NewBuffer(make([]byte, 4)) // room for the size
	if err := gob.NewEncoder(body).Encode(o); err != nil {
		return err
	}
	if body.Len() > maxOrder {
		return fmt.Errorf("command and environment take %d bytes and %d are the most: pass large data by file", body.Len(), maxOrder)
	}
	binary.BigEndian.PutUint32(body.Bytes(), uint32(body.Len()-4))
	_, err := w.Write(body.Bytes())
	return err
}

func readOrder(r io.Reader) (order, error) {
	var o order
	var size uint32
	if err := binary.Read(r, binary.BigEndian, &size); err != nil {
		return o, err
	}
	if size > maxOrder {
		return o, fmt.Errorf("an order of %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return o, err
	}
	return o, gob.NewDecoder(bytes.NewReader(body)).Decode(&o)
}

// failure turns what went wrong in the helper into what goes over the pipe.
func failure(doing string, err error) reply {
	r := reply{Doing: doing}
	if !errors.As(err, &r.Errno) {
		r.Why = err.Error()
	}
	return r
}

// err turns it back, so that errors.Is still finds a missing file or permission.
func (r reply) err() error {
	if r.Errno == 0 {
		return fmt.Errorf("%s: %s", r.Doing, r.Why)
	}
	return fmt.Errorf("%s: %w: %s", r.Doing, r.Errno, advice(r.Errno))
}

func advice(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOENT:
		return "install it, or correct its path (for a script, that of its interpreter)"
	case syscall.EACCES, syscall.EPERM:
		return "let the sandbox's user search the directories and execute the file, or run the agent with the rights to change user"
	case syscall.ENOEXEC:
		return "build it for this machine, or begin a script with #!"
	case syscall.E2BIG:
		return "pass large data by file, not by argument or environment"
	case syscall.ENOMEM:
		return "give the sandbox more memory"
	}
	return "see the helper's words in the sandbox's stderr log"
}
