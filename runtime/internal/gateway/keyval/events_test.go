package keyval_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// Streams are in the scripts of package gateway. Here are those with much in them.

// follow returns what a stream says in a second of virtual time.
func (s *store) follow(path string) string {
	ctx, cancel := context.WithTimeout(s.T.Context(), time.Second)
	defer cancel()
	w := httptest.NewRecorder()
	s.Gateway.ServeHTTP(w, s.Request("GET", path, "").WithContext(ctx))
	return w.Body.String()
}

// The limit bounds what is there at first also if that comes in several events.
func TestTheLimitOfAWatchIsOfAllThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		large := `"` + strings.Repeat("x", 1<<20-2) + `"`
		for i := range 20 {
			s.put(fmt.Sprint("n/", i), large)
		}
		text := s.follow("watch/prefix?prefix=n&limit=18")
		if n, events := strings.Count(text, `"key":`), strings.Count(text, "event: change"); n != 18 || events < 2 {
			t.Errorf("%d entries in %d events", n, events)
		}
	})
}

// A listener that settles nothing gets no more than it may hold.
func TestAListenerHoldsSoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		for range 70 {
			s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
		}
		same(t, strings.Count(s.follow("queue/listen"), "event: message"), 64)
		s.exactly(`{"pending":6,"processing":64,"dlq":0,"total":70}`, "GET", "queue/stats", "")
	})
}

func TestFaultyWatches(t *testing.T) {
	s := openWith(t, serve.Options{Limits: serve.Limits{Streams: 1}})
	many := strings.TrimSuffix(strings.Repeat("a,", 1001), ",")
	s.paths(400, "GET", "", "watch", "Missing 'keys' query parameter",
		"watch?keys=", "Missing 'keys' query parameter", "watch?keys=a,", "empty segment",
		"watch?keys="+many, "the limit is 1000", "watch?keys=a&initial=1", "initial", "watch?keys=a&limit=1", "limit",
		"watch/prefix", "Missing 'prefix' query parameter", "watch/prefix?prefix=a&prefixes=b", "both",
		"watch/prefix?prefixes="+many[:33], "the limit is 16", "watch/prefix?prefix=a&limit=0", "limit",
		"watch/poll", "Missing 'keys' query parameter",
		"watch/poll?keys=a&versionstamps=1,2", "2 versionstamps for 1 keys",
		"watch/prefix/poll", "Missing 'prefix' query parameter", "watch/prefix/poll?prefix=a&limit=x", "limit",
		"watch/prefix/poll?prefix=a&versionstamps=a%2500%25FF:00000000000000020000", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a%2500b:00000000000000020000", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a//b:1", "versionstamps")
	s.want(405, "HEAD", "HEAD", "watch?keys=a", "")
}
