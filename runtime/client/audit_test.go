package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/runtime/client"
)

// The clock of the client may be another than that of the node: the first connection begins at the present of the node, and the next where
// the first did.
func TestTheAuditLogIsFollowedByTheClockOfTheNode(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Date", "Tue, 01 Jan 2030 00:00:00 GMT")
		switch len(asked) {
		case 2:
			fmt.Fprint(w, "id: 7\nevent: audit\ndata: {\"id\":7}\n\n")
		case 3:
			fmt.Fprint(w, "id: 8\nevent: audit\ndata: {\"id\":8}\n\n")
		default:
			io.WriteString(w, "\n")
		}
	}))
	defer s.Close()
	c, err := client.New(s.URL, client.Options{Backoff: time.Microsecond, MaxBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	enough := errors.New("enough")
	err = c.FollowAudit(t.Context(), audit.Query{}, func(r *audit.Record) error {
		if r.ID == 8 {
			return enough
		}
		return nil
	})
	const since = "since=2030-01-01T00%3A00%3A00Z"
	if want := []string{"", since, "after=7&" + since}; err != enough || !slices.Equal(asked, want) {
		t.Errorf("%q, %v", asked, err)
	}
}
