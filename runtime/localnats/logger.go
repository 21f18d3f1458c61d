package localnats

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// A logger passes the server's log lines to slog and keeps the first fatal one, because a NATS
// server only logs a failed start. Notices become debug lines: they describe the server's own life,
// which the program controls. Traces are never on.
type logger struct {
	to    *slog.Logger
	mu    sync.Mutex
	cause error // guarded by mu
}

// debug reports whether debug lines are wanted.
func (l *logger) debug() bool { return l.to.Enabled(context.Background(), slog.LevelDebug) }

// fatal returns the first fatal line as an error.
func (l *logger) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *logger) log(level slog.Level, format string, v []any) {
	if l.to.Enabled(context.Background(), level) {
		l.to.Log(context.Background(), level, "nats server: "+fmt.Sprintf(format, v...))
	}
}

func (l *logger) Noticef(format string, v ...any) { l.log(slog.LevelDebug, format, v) }
func (l *logger) Debugf(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any)  { l.log(slog.LevelDebug, format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.log(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any)  { l.log(slog.LevelError, format, v) }

func (l *logger) Fatalf(format string, v ...any) {
	l.mu.Lock()
	if l.cause == nil {
		l.cause = fmt.Errorf(format, v...)
	}
	l.mu.Unlock()
	l.log(slog.LevelError, format, v)
}
