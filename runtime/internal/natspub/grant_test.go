package natspub

import (
	"context"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cairn-run/cairn/actor/host"
)

// The grant of docs/nats.md is enough to publish and to answer calls.
func TestTheGrantOfTheGuideIsEnough(t *testing.T) {
	grant := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{
		{Username: "admin", Password: "a"},
		{Username: "node", Password: "n", Permissions: &server.Permissions{
			Publish:   grant("cairn.*.event.>", "cairn.*.change.>", "cairn.*.life.>", "cairn.*.audit.>", "_INBOX.>", "$JS.API.STREAM.NAMES"),
			Subscribe: grant("cairn.*.call.>", "$SRV.>", "_INBOX.>"),
		}},
	}})
	must(t, err)
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	fatalIf(t, !s.ReadyForConnections(patience), "the server does not start")
	admin, err := nats.Connect(s.ClientURL(), nats.UserInfo("admin", "a"))
	must(t, err)
	defer admin.Close()
	js, err := jetstream.New(admin)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, errOf(js.CreateStream(ctx, allEvents)))
	box := newOutbox(t)
	p := begin(t, Options{
		Outbox: box, JetStream: true, Dial: URL(s.ClientURL(), nats.UserInfo("node", "n")), Endpoints: airport,
		Node: fakeNode{call: func(context.Context, *host.Request) (host.Reply, error) { return host.Reply{Output: []byte("1")}, nil }},
	})
	must(t, p.calls.nc.FlushTimeout(patience))
	if reply, code := request(t, admin, callSubject+"delays.ORD", "{}"); code != "" || string(reply.Data) != "1" {
		t.Errorf("a call: %s %s", code, reply.Data)
	}
	box.commit(p, emitted(0, 1, true, "opened"))
	box.commit(p, changed(0, 2)) // which no stream covers
	box.awaitEmpty(t)
	stream, err := js.Stream(ctx, allEvents.Name)
	must(t, err)
	info, err := stream.Info(ctx)
	errorIf(t, err != nil || info.State.Msgs != 1, "%+v %v", info, err)
	same(t, value(t, p.metrics.errors, ""), 0, "the server reports ... errors")
}
