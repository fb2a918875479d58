package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// waitLine says what is being waited for. On a terminal it is one line that is rewritten
// each second and gone in the end; elsewhere it is a line now and then.
type waitLine struct {
	w       io.Writer
	rewrite bool
	width   func() int
	since   time.Time

	mu      sync.Mutex // guards what follows, and whole writes to w
	text    string
	printed time.Time // of the last plain line
	over    chan struct{}
	ticking sync.WaitGroup
}

// rarely is the least time between two plain lines.
const rarely = 30 * time.Second

func newWaitLine(w io.Writer) *waitLine {
	l := &waitLine{w: w, since: time.Now(), width: func() int { return 80 }}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		l.rewrite = true
		l.width = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil || width < 20 {
				return 80
			}
			return width
		}
	}
	return l
}

// say changes the text.
func (l *waitLine) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = plain(text)
	if !l.rewrite {
		l.print()
		return
	}
	l.draw()
	if l.over == nil {
		l.over = make(chan struct{})
		l.ticking.Add(1)
		go l.tick(l.over)
	}
}

// print writes a plain line, the first at once and then rarely.
func (l *waitLine) print() {
	if !l.printed.IsZero() && time.Since(l.printed) < rarely {
		return
	}
	l.printed = time.Now()
	fmt.Fprintln(l.w, "plimsoll: "+l.whole())
}

func (l *waitLine) whole() string {
	if waited := time.Since(l.since); waited >= time.Second {
		return l.text + ", waited " + seconds(waited.Truncate(time.Second))
	}
	return l.text
}

// draw writes over the line; it never gets so long that it would wrap.
func (l *waitLine) draw() {
	text := l.whole()
	if most := l.width() - 1; utf8.RuneCountInString(text) > most {
		text = short(text, most)
	}
	fmt.Fprint(l.w, "\r\x1b[K"+text)
}

func (l *waitLine) tick(over <-chan struct{}) {
	defer l.ticking.Done()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
			l.mu.Lock()
			l.draw()
			l.mu.Unlock()
		}
	}
}

// clear takes the line away; the next say begins anew.
func (l *waitLine) clear() {
	l.mu.Lock()
	over := l.over
	l.over = nil
	l.mu.Unlock()
	if over == nil {
		return
	}
	close(over)
	l.ticking.Wait()
	fmt.Fprint(l.w, "\r\x1b[K")
}
