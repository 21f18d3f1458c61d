package natspub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/token"
)

// tracedNode is a node that records requests.
type tracedNode struct{ fakeNode }

// BeginRequest implements host.Tracer.
func (tracedNode) BeginRequest(_ string, cause host.Span) host.Span {
	if cause.Sampled() {
		cause.ID[0]++
	}
	return cause
}

// EndRequest implements host.Tracer.
func (tracedNode) EndRequest(host.Address, string, string, host.Span, host.Span, time.Time, error) {}

// shown answers a call with what reached the node, or as the key says.
func shown(ctx context.Context, r *host.Request) (host.Reply, error) {
	switch slices.Concat(r.Key, []string{""})[0] {
	case "full":
		return host.Reply{}, host.Errorf(host.QuotaExceeded, "no room\nfor this").With("limit", "10").With("odd key:", "\"v\"\n").Retry()
	case "bare":
		return host.Reply{}, &host.Error{Code: host.NotFound}
	case "long":
		return host.Reply{}, host.Errorf(host.Internal, "%s", strings.Repeat("x", 700<<10))
	case "large": // what fits without the header of the version may not fit with it
		return host.Reply{Output: make([]byte, 2<<20), Version: 1}, nil
	case "late":
		<-ctx.Done()
		return host.Reply{}, ctx.Err()
	case "plain":
		return host.Reply{}, errors.New("secret detail")
	case "again":
		return host.Reply{Version: 42, Replayed: true}, nil
	}
	deadline, _ := ctx.Deadline()
	text := fmt.Sprintf("%s of %s %q: %s, codec %d, within %s", r.Method, r.Type, r.Key, r.Input, r.Codec, time.Until(deadline).Round(time.Minute))
	if r.IdempotencyKey != "" {
		text += ", key " + r.IdempotencyKey
	}
	if r.Traceparent != "" {
		text += ", trace " + r.Traceparent
	}
	if g := token.Of(ctx); g != nil {
		text += ", grant " + g.ID
	}
	if o := audit.Of(ctx); o != nil {
		text += fmt.Sprintf(", over %s: %s", o.Channel, o.Reason)
	}
	return host.Reply{Output: []byte(text)}, nil
}

// TestCallScripts sends the requests of testdata/calls: the end of a subject and a body, and below them headers. It prints the headers
// and the body of the answer. `go test -run CallScripts -rewrite ./runtime/internal/natspub` writes the answers anew.
func TestCallScripts(t *testing.T) {
	r := publishing(t, Options{
		CallTimeout: time.Second, Node: tracedNode{fakeNode{call: shown}},
		Endpoints: []Endpoint{{Type: "airport", Methods: slices.Concat(airport[0].Methods, []host.Method{
			{Name: host.KVGet, Kind: host.Query}, {Name: host.KVWatch, Kind: host.Query},
		})}},
	})
	r.flush()
	nc := r.srv.client()
	datadriven.RunTest(t, "testdata/calls", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "counted" {
			return fmt.Sprintln(value(t, r.metrics.calls, d.CmdArgs[0].Key))
		}
		first, headers, _ := strings.Cut(d.Input, "\n")
		subject, body, _ := strings.Cut(first, " ")
		if !strings.HasPrefix(subject, "cairn.") {
			subject = callSubject + subject
		}
		m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
		for line := range strings.Lines(headers) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			m.Header[name] = append(m.Header[name], strings.TrimSpace(value))
		}
		reply, err := nc.RequestMsg(m, patience)
		if err != nil {
			return err.Error() + "\n"
		}
		out := ""
		for _, name := range slices.Sorted(maps.Keys(reply.Header)) {
			out += fmt.Sprintf("%s: %.100s\n", name, strings.Join(reply.Header[name], " | "))
		}
		return out + fmt.Sprintf("%.300s\n", reply.Data)
	})
}
