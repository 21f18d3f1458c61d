package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// metered is a node that has counted something.
type metered struct {
	documented
	asked *usage.Query
}

// Usage implements usage.Meter.
func (m metered) Usage(_ context.Context, q usage.Query) (usage.Page, error) {
	*m.asked = q
	return usage.Page{Day: "2026-11-27", Cursor: "more", Actors: []usage.Actor{
		{Type: "room", Key: []string{"=cmd|' /C calc'!A0", "~", "a,b"}, Work: usage.Work{Calls: 1, Turns: 2, HandlerUS: 3, BytesWritten: 4, BytesSent: 5, BytesStored: 6}},
	}}, nil
}

func TestUsageAsCSV(t *testing.T) {
	var asked usage.Query
	var rights []serve.AuthRequest
	g := newGateway(t, setup{Node: metered{documented{failing(nil)}, &asked}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		rights = append(rights, r)
		return nil
	}})
	w := ask(g, "GET", "/-/usage?day=2026-11-27&type=room&prefix=a&prefix=b&limit=7&cursor=c&format=csv", "", "X: y")
	const want = "day,actor,calls,turns,handler_us,bytes_written,bytes_sent,bytes_stored\r\n" +
		"2026-11-27,room/=cmd%7C%27%20%2FC%20calc%27%21A0/~~/a%2Cb,1,2,3,4,5,6\r\n"
	if w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Type") != "text/csv; charset=utf-8" || w.Header().Get("Cairn-Cursor") != "more" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	if asked.Day != "2026-11-27" || asked.Type != "room" || !slices.Equal(asked.Prefix, []string{"a", "b"}) || asked.Limit != 7 || asked.Cursor != "c" {
		t.Errorf("the node is asked for %+v", asked)
	}
	if len(rights) != 1 || rights[0].Operation != serve.Operate || rights[0].Method != ListUsage || rights[0].Type != "room" || len(rights[0].Key) != 2 {
		t.Errorf("the hook is asked about %+v", rights)
	}
	for query, field := range map[string]string{"format=xml": "format", "limit=0": "limit", "limit=1001": "limit", "by=x": "by", "day=1&day=2": "day"} {
		w := ask(g, "GET", "/-/usage?"+query, "", "X: y")
		if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != field {
			t.Errorf("%s: %d %v", query, w.Code, e)
		}
	}
	if w := ask(g, "GET", "/-/top?limit=x", "", "X: y"); w.Code != 400 || !strings.Contains(w.Body.String(), `"limit"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if r := rights[len(rights)-1]; r.Operation != serve.List {
		t.Errorf("the hook is asked about %+v", r)
	}
}
