package client_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/client"
)

// A connection that is lost is made again, and the reader is told that spans may be missing.
func TestSpansAreFollowedOverConnections(t *testing.T) {
	const life = "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"
	connections := 0
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		const want = "/actors/room/a/-/traces?errors=true&name=turn&trace_id=7"
		errorIf(t, r.URL.RequestURI() != want || r.Header.Get("Accept") != "text/event-stream", "asked for %s", r.URL)
		last := r.Header.Get("Last-Event-ID")
		errorIf(t, (last == life) != (connections > 0), "connection %d goes on with the life %q", connections+1, last)
		w.Header().Set("Content-Type", "text/event-stream")
		switch connections++; connections {
		case 1:
			fmt.Fprint(w, "retry: 1\nid: "+life+"\n\n:\n\nevent: span\ndata: {\"name\":\"a\",\"attributes\":{\"n\":9007199254740993}}\n\n"+
				"event: cairn.gap\ndata: {\"missed\":3}\n\nevent: span\ndata: {\"na")
		case 2:
			io.WriteString(w, "\nevent: cairn.bye\ndata: {\"code\":\"unavailable\"}\n\n")
		case 3:
			fmt.Fprint(w, "event: other\ndata: 1\n\nevent: span\ndata: {\"name\":\"b\"}\n\nevent: cairn.bye\ndata: {\"code\":\"destroyed\",\"message\":\"gone\"}\n\n")
		}
	}, client.Options{})
	tail, err := c.FollowTraces(t.Context(), host.Address{Type: "room", Key: []string{"a"}}, trace.FollowInput{TraceID: "7", Name: "turn", Errors: true})
	must(t, err)
	defer tail.Close()
	errorIf(t, tail.Life() != life, "it follows the life %q", tail.Life())
	var got string
	for err == nil {
		var news trace.News
		if news, err = tail.Next(t.Context()); err == nil {
			for _, s := range news.Spans {
				got += fmt.Sprint(s.Name, s.Attributes)
			}
			got += fmt.Sprintf(" missed %d lost %v; ", news.Missed, news.Lost)
		}
	}
	const want = "amap[n:9007199254740993] missed 0 lost false;  missed 3 lost false; bmap[] missed 0 lost true; "
	wantCode(t, err, host.Destroyed)
	errorIf(t, got != want, "%s; want %s", got, want)
}
