package serve

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// serverLog takes what net/http reports. Most is about what a client did wrong, which operators
// need not see. That the node can accept no connection, usually because it has no file descriptors
// left, is a warning; net/http tries again within a second and reports each time, so one line a
// second is passed on.
type serverLog struct {
	log  *slog.Logger
	mu   sync.Mutex
	next time.Time
}

func (l *serverLog) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	if !strings.HasPrefix(line, "http: Accept error") {
		l.log.Debug(line)
		return len(p), nil
	}
	l.mu.Lock()
	now := time.Now()
	warn := !now.Before(l.next)
	if warn {
		l.next = now.Add(time.Second)
	}
	l.mu.Unlock()
	level, attrs := slog.LevelDebug, []any{"error", line}
	if warn {
		level = slog.LevelWarn
		if strings.Contains(line, "too many open files") {
			attrs = append(attrs, "hint", "raise the limit of open files of the process (ulimit -n, LimitNOFILE)")
		}
	}
	l.log.Log(context.Background(), level, "connections cannot be accepted", attrs...)
	return len(p), nil
}
