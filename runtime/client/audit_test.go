package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/runtime/client"
)

// A follower of changes that connects again is told of the gap, before anything else changes.
func TestChangesAreFollowedOverALostConnection(t *testing.T) {
	asked := 0
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		errorIf(t, r.URL.RequestURI() != "/-/changes?kinds=event%2Ckv&prefix=a&prefix=b&type=room", "asked for %s", r.URL)
		w.Header().Set("Content-Type", "text/event-stream")
		if asked == 2 {
			io.WriteString(w, "retry: 1\n\n")
			return
		}
		fmt.Fprintf(w, "\n:\nevent: changes\ndata: {\"type\":\"room\",\"version\":%d,\"changes\":[{\"kind\":\"kv\",\"data\":{}}]}\n\n", asked)
	}, client.Options{})
	enough := errors.New("enough")
	var told []string
	err := c.FollowChanges(t.Context(), changes.Query{Type: "room", Prefix: []string{"a", "b"}, Kinds: []string{"event", "kv"}}, func(r *changes.Record) error {
		if told = append(told, fmt.Sprintf("%v %d %d", r.Gap, r.Version, len(r.Changes))); len(told) == 4 {
			return enough
		}
		return nil
	})
	want := []string{"false 1 1", "true 0 0", "true 0 0", "false 3 1"}
	errorIf(t, err != enough || !slices.Equal(told, want), "%q, %v", told, err)
}

// The clock of the client may be another than that of the node: the first connection begins at the present of the node, and the next where
// the first did.
func TestTheAuditLogIsFollowedByTheClockOfTheNode(t *testing.T) {
	var asked []string
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery+" "+r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Date", "Tue, 01 Jan 2030 00:00:00 GMT")
		switch len(asked) {
		case 2:
			fmt.Fprint(w, "id: 7\nevent: audit\ndata: {\"id\":7}\n\nid: 8\nevent: audit\ndata: {\"i") // half a record is none
		case 3:
			fmt.Fprint(w, "id: 8\nevent: audit\ndata: {\"id\":8}\n\n")
		default:
			io.WriteString(w, "\n")
		}
	}, client.Options{})
	enough := errors.New("enough")
	err := c.FollowAudit(t.Context(), audit.Query{}, func(r *audit.Record) error {
		if r.ID == 8 {
			return enough
		}
		return nil
	})
	const since = "since=2030-01-01T00%3A00%3A00Z"
	want := []string{" ", since + " ", since + " 7"}
	errorIf(t, err != enough || !slices.Equal(asked, want), "%q, %v", asked, err)
}
