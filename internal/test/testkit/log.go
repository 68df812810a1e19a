package testkit

import (
	"log/slog"
	"strings"
	"sync"
)

// Log is a writer that keeps what a logger of many goroutines writes. The zero value is ready to use.
type Log struct {
	mu   sync.Mutex // protects text
	text strings.Builder
}

// Write keeps line.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// String returns everything since the last Take.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Take returns the lines since the last Take, without their times, and removes them.
func (l *Log) Take() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, line)
	}
	l.text.Reset()
	return lines
}

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
