package strata

import (
	"context"
	"errors"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The history that a space keeps, unless it is a scope already.
const (
	keepVersions = 16
	keepForHours = 24
)

// New returns the interface.
func New(call func(context.Context, *host.Request) (host.Reply, error),
	operation func(typ, method string) serve.Operation) *kvrest.Interface {
	s := &server{stores: kv.NewOpener()}
	s.sessions.open = make(map[sessionKey]*session)
	s.sessions.taken = make(map[sessionKey]usage)
	return &kvrest.Interface{Call: call, Operation: operation, Form: Form, Status: status, Routes: []kvrest.Route{
		{Verb: http.MethodPost, Path: "execute", Method: host.KVGet, Answer: s.execute},
	}}
}

// A server holds the transactions, which outlive a request.
type server struct {
	stores   *kv.Opener
	sessions sessions
}

// A link is the node of a store. Each call belongs to the current request.
type link struct {
	host.Node // not used
	r         *kvrest.Request
	existing  bool // a commit must not create the actor
}

// Call implements host.Node.
func (l *link) Call(_ context.Context, q *host.Request) (host.Reply, error) {
	q.Existing = q.Existing || l.existing && q.Method == host.KVCommit
	return l.r.Send(q)
}

// A call is a command of a request.
type call struct {
	*kvrest.Request
	*server
	ctx     context.Context
	link    *link
	store   kv.Store
	name    string   // of the client's session; "" for none
	session *session // with the command's transaction; nil for none
	lapsed  *session // session of that name whose transaction ended by itself; nil for none
}

// execute answers POST execute.
func (s *server) execute(r *kvrest.Request) (any, error) {
	body, err := r.Bytes()
	if err != nil {
		return nil, err
	}
	name, cmd, err := parse(body)
	if err != nil {
		return nil, err
	}
	c := &call{Request: r, server: s, ctx: r.Context(), name: name}
	if _, begins := cmd.(*txnBegin); name != "" && !begins {
		if c.session, c.lapsed, err = s.sessions.enter(r, name); err != nil {
			return nil, err
		}
		if c.session != nil {
			defer s.sessions.leave(c.session)
		}
	}
	if c.session != nil {
		c.link, c.store = c.session.link, c.session.store
		c.link.r = r
	} else {
		c.link = &link{r: r}
		c.store = s.stores.Open(c.link, r.Address)
	}
	out, err := cmd.run(c)
	return out, outside(err)
}

// outside converts an error of a store for clients.
func outside(err error) error {
	if conflict := (*kv.ConflictError)(nil); errors.As(err, &conflict) {
		return named("TransactionConflict", host.FailedPrecondition, "%s", conflict)
	}
	if errors.Is(err, kv.ErrEnded) {
		return named("TransactionNotActive", host.FailedPrecondition, "%s", err)
	}
	if e, is := errors.AsType[*host.Error](err); is && e.Metadata["field"] == "at" {
		return invalid("at_version", "is wrong: %s", e.Message)
	}
	return kvrest.Outside(err, "mutations")
}
