package serve

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestExhaustedDescriptorsAreAWarningOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := log.New(&serverLog{log: slog.New(slog.NewTextHandler(&out, nil))}, "", 0)
		for range 30 {
			l.Print("http: TLS handshake error from 10.0.0.1:1: EOF")
			l.Print("http: Accept error: accept tcp 127.0.0.1:6420: accept4: too many open files; retrying in 100ms")
			time.Sleep(100 * time.Millisecond)
		}
		if n := strings.Count(out.String(), "level=WARN"); n != 3 || !strings.Contains(out.String(), "LimitNOFILE") ||
			strings.Contains(out.String(), "handshake") {
			t.Errorf("%d warnings in 3 seconds:\n%s", n, &out)
		}
	})
}
