package serve

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// serverLog handles net/http's log lines. Most are about faults of clients, which operators need
// not see. If the node can accept no connection, usually because it has no file descriptors left,
// that is a warning. net/http retries within a second and logs each time, so serverLog passes on
// one line a second.
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
