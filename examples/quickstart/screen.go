package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// screen shows frames: in place in a terminal, elsewhere as lines.
type screen struct {
	out io.Writer
	tty int // file descriptor of the terminal; -1 if out is not one
	log *lastRecord
}

func newScreen(out io.Writer, stderr *os.File) *screen {
	s := &screen{out: out, tty: -1, log: &lastRecord{stderr: stderr}}
	file, ok := out.(*os.File)
	// A Windows console supports escape sequences only after a setup that this program lacks.
	if ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows" {
		s.tty = int(file.Fd())
	}
	return s
}

// show shows the frames that next returns, until ctx ends. In a terminal the last frame remains.
func (s *screen) show(ctx context.Context, next func() frame) error {
	every := time.Second
	if s.tty >= 0 {
		every = time.Second / 4
		s.log.hold(true)
		defer s.log.hold(false)
		io.WriteString(s.out, "\x1b[?1049h\x1b[?25l") // the alternate screen, without a cursor
		defer func() {
			io.WriteString(s.out, "\x1b[?25h\x1b[?1049l"+strings.Join(s.fit(next()), "\n")+"\n")
		}()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		text := ""
		if f := next(); s.tty < 0 {
			text = f.line() + "\n"
		} else { // one write that clears only unused space, to avoid flicker
			text = "\x1b[H" + strings.Join(s.fit(f), "\x1b[K\n") + "\x1b[K\x1b[J"
		}
		if _, err := io.WriteString(s.out, text); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// fit returns the lines of f for the terminal's present size.
func (s *screen) fit(f frame) []string {
	width, height, err := term.GetSize(s.tty)
	if err != nil || width < 1 || height < 1 {
		width, height = 80, 24
	}
	f.log = s.log.text()
	return f.render(width, height, os.Getenv("NO_COLOR") == "")
}

// lastRecord keeps the last log record, which frames show. It writes records to stderr, unless that is a terminal that
// shows frames.
type lastRecord struct {
	stderr *os.File

	mu     sync.Mutex // protects the fields below
	held   bool       // frames are being shown
	record string
}

// Write writes one record.
func (l *lastRecord) Write(record []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record = string(bytes.TrimSpace(record))
	if l.held && term.IsTerminal(int(l.stderr.Fd())) {
		return len(record), nil
	}
	return l.stderr.Write(record)
}

func (l *lastRecord) hold(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = on
}

// text returns the last record without its time.
func (l *lastRecord) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record[max(strings.Index(l.record, "level="), 0):]
}
