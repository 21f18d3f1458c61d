package strata

import (
	"container/list"
	"context"
	"crypto/rand"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// The limits of transactions.
const (
	idle         = 30 * time.Second
	maxSessions  = 10_000   // transactions of a gateway
	maxOfActor   = 100      // of an actor
	maxBytes     = 16 << 20 // that one has read and is to write
	maxAllBytes  = 64 << 20 // that all of a gateway have
	maxLapsed    = 10_000   // transactions that ended by themselves, and that are remembered for that
	entryBytes   = 256      // what an entry costs besides its key and value
	madeSessions = "txn:"   // begins the names of sessions that TxnBegin makes
)

// A sessionKey names a session. Each actor has names of its own, and each token of it, which may not read all that another may.
type sessionKey struct{ actor, token, name string }

func keyOfSession(r *kvrest.Request, name string) sessionKey {
	return sessionKey{strings.Join(append([]string{r.Address.Type}, r.Address.Key...), "\x00"), r.Token, name}
}

// A session is one with a transaction. It is used by one request at a time.
type session struct {
	key      sessionKey
	turn     chan struct{} // has an element while a request uses it
	link     *link
	store    kv.Store
	branch   string
	readOnly bool
	began    time.Time
	tx       *kv.Tx
	spaces   map[string]struct{} // that it writes to

	// These belong to the registry.
	place  *list.Element
	used   time.Time
	users  int // requests that use it or wait for that
	bytes  int
	lapsed bool // it rested for too long
}

// sessions are the open transactions of a gateway, and others that ended by themselves.
//
// None has a timer: one that has rested too long ends when the next request about any comes.
type sessions struct {
	mu     sync.Mutex
	open   map[sessionKey]*session // also such that lapsed
	order  list.List               // with a transaction, the least recently used first
	ended  list.List               // such that lapsed, the first first
	active map[string]int          // transactions of each actor
	bytes  int
}

// sweep ends what has rested for too long. REQUIRES: mu.
func (r *sessions) sweep(now time.Time) {
	for e := r.order.Front(); e != nil; {
		s := e.Value.(*session)
		if now.Sub(s.used) <= idle {
			return
		}
		if e = e.Next(); s.users == 0 {
			r.lapse(s)
		}
	}
}

// lapse ends the transaction of a session, and remembers that. REQUIRES: mu, and no other request that uses the session.
func (r *sessions) lapse(s *session) {
	r.drop(s)
	s.tx, s.lapsed = nil, true
	s.place = r.ended.PushBack(s)
	if r.ended.Len() > maxLapsed {
		r.forget(r.ended.Front().Value.(*session))
	}
}

// drop takes a session out of those with a transaction. REQUIRES: mu.
func (r *sessions) drop(s *session) {
	r.order.Remove(s.place)
	r.bytes -= s.bytes
	s.bytes = 0
	if r.active[s.key.actor]--; r.active[s.key.actor] == 0 {
		delete(r.active, s.key.actor)
	}
}

// forget forgets that a session lapsed. REQUIRES: mu.
func (r *sessions) forget(s *session) {
	r.ended.Remove(s.place)
	delete(r.open, s.key)
}

// begin opens a session. The caller uses it until leave.
func (r *sessions) begin(s *session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.sweep(now)
	if was := r.open[s.key]; was != nil {
		if !was.lapsed {
			return named("TransactionAlreadyActive", host.FailedPrecondition, "the session has a transaction; commit or roll it back first")
		}
		r.forget(was)
	}
	for _, limit := range []struct {
		of        string
		most, has int
	}{{"actor", maxOfActor, r.active[s.key.actor]}, {"node", maxSessions, r.order.Len()}} {
		if limit.has >= limit.most {
			return host.Errorf(host.Overloaded, "the %s has %d transactions, which is the limit; one ends %s after its last command", limit.of, limit.most, idle).Retry()
		}
	}
	s.turn, s.used, s.users = make(chan struct{}, 1), now, 1
	s.turn <- struct{}{}
	s.place = r.order.PushBack(s)
	r.open[s.key] = s
	r.active[s.key.actor]++
	return nil
}

// enter waits until no other request uses a session. Both results are nil if it has no transaction. After one that is active,
// leave must follow.
func (r *sessions) enter(c *kvrest.Request, name string) (active, lapsed *session, err error) {
	r.mu.Lock()
	r.sweep(time.Now())
	s := r.open[keyOfSession(c, name)]
	switch {
	case s == nil && strings.HasPrefix(name, madeSessions):
		err = notActive("the session has ended, or belongs to another actor")
	case s != nil && s.lapsed:
		lapsed = s
	case s != nil:
		active = s
		s.users++
	}
	r.mu.Unlock()
	if active == nil {
		return nil, lapsed, err
	}
	select {
	case s.turn <- struct{}{}:
	case <-c.Context().Done():
		r.mu.Lock()
		s.users--
		r.mu.Unlock()
		return nil, nil, c.Context().Err()
	}
	if s.tx == nil {
		r.leave(s)
		return nil, nil, notActive("another request has ended the transaction meanwhile")
	}
	if s.tx.Do() != nil { // it has rested too long, which was not noticed before
		r.mu.Lock()
		r.lapse(s)
		r.mu.Unlock()
		r.leave(s)
		return nil, s, nil
	}
	return s, nil, nil
}

// leave ends the use of a session.
func (r *sessions) leave(s *session) {
	s.link.r = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	s.users--
	if s.used = time.Now(); s.tx != nil {
		r.order.MoveToBack(s.place)
	}
	<-s.turn
}

// end ends the transaction of a session, which the caller uses.
func (r *sessions) end(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.tx = nil
	r.drop(s)
	delete(r.open, s.key)
}

// acknowledge forgets that a session had lapsed, when its client is told so.
func (r *sessions) acknowledge(s *session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[s.key] == s {
		r.forget(s)
	}
	return errLapsed()
}

func errLapsed() error {
	return notActive("the transaction rested for more than %s, and nothing of it was done", idle)
}

func notActive(format string, args ...any) error {
	return named("TransactionNotActive", host.FailedPrecondition, format, args...)
}

// grow counts what a transaction has read, or is to write.
func (r *sessions) grow(s *session, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n += entryBytes
	switch {
	case s.bytes+n > maxBytes:
		return host.OverLimit("bytes of a transaction", maxBytes, int64(s.bytes+n))
	case r.bytes+n > maxAllBytes:
		return host.Errorf(host.Overloaded, "the transactions of the node take %d bytes, which is the limit", maxAllBytes).Retry()
	}
	s.bytes += n
	r.bytes += n
	return nil
}

// do adds mutations to the transaction of a session.
func (r *sessions) do(s *session, space string, size int, mutations []kv.Mutation) error {
	if s.readOnly {
		return named("AccessDenied", host.FailedPrecondition, "the transaction only reads")
	}
	if err := r.grow(s, size+(len(mutations)-1)*entryBytes); err != nil {
		return err
	}
	s.spaces[space] = struct{}{}
	return s.tx.Do(mutations...)
}

// reads are the entries as a transaction sees them.
type reads struct {
	s *session
	r *sessions
}

// GetMany implements entries.
func (v reads) GetMany(ctx context.Context, keys ...kv.Key) ([]*kv.Entry, error) {
	found, err := v.s.tx.GetMany(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		n := 0
		if e != nil {
			n = len(e.Value.Data)
		}
		if err := v.r.grow(v.s, n); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// All implements entries. It keeps nothing of an entry.
func (v reads) All(ctx context.Context, c kv.ListConfig) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		if err := v.r.grow(v.s, 0); err != nil {
			yield(kv.Entry{}, err)
			return
		}
		v.s.tx.All(ctx, c)(yield)
	}
}

// txnBegin begins a transaction in a session, or in one that it makes.
type txnBegin struct {
	Branch  *text `json:"branch"`
	Options *struct {
		ReadOnly bool `json:"read_only"`
	} `json:"options"`
}

func (in *txnBegin) run(c *call) (any, error) {
	name := c.name
	switch {
	case name == "":
		name = madeSessions + rand.Text()
	case strings.HasPrefix(name, madeSessions):
		return nil, invalid("session", "must not begin with %q in TxnBegin", madeSessions)
	}
	branch, err := in.Branch.name("branch")
	if err != nil {
		return nil, err
	}
	if err := c.there(branch); err != nil {
		return nil, err
	}
	s := &session{
		key: keyOfSession(c.Request, name), link: c.link, store: c.store, branch: branch, readOnly: in.Options != nil && in.Options.ReadOnly,
		began: time.Now(), tx: c.store.Branch(stored(branch)).Begin(), spaces: make(map[string]struct{}),
	}
	if err := c.sessions.begin(s); err != nil {
		return nil, err
	}
	c.sessions.leave(s)
	return map[string]any{"Session": name}, nil
}

// needed returns the session, which must have a transaction.
func (c *call) needed() (*session, error) {
	switch {
	case c.lapsed != nil:
		return nil, c.sessions.acknowledge(c.lapsed)
	case c.session == nil:
		return nil, notActive("the session has no transaction; TxnBegin begins one")
	}
	return c.session, nil
}

// txnCommit commits the transaction. The version is null if there was nothing to commit.
type txnCommit struct{}

func (*txnCommit) run(c *call) (any, error) {
	s, err := c.needed()
	if err != nil {
		return nil, err
	}
	for name := range s.spaces {
		of := &space{c, s.store.Branch(stored(s.branch)), name}
		if err := of.keepHistory(); err != nil {
			return nil, err
		}
	}
	tx := s.tx
	c.sessions.end(s)
	r, err := tx.Commit(c.ctx)
	of := space{}
	return map[string]any{"Version": of.version(r)}, err
}

// txnRollback ends the transaction. Nothing of it is done.
type txnRollback struct{}

func (*txnRollback) run(c *call) (any, error) {
	s, err := c.needed()
	if err != nil {
		return nil, err
	}
	c.sessions.end(s)
	return map[string]any{"Unit": nil}, nil
}

// txnInfo describes the transaction; null if there is none.
type txnInfo struct{}

func (*txnInfo) run(c *call) (any, error) {
	s := c.session
	if s == nil {
		return map[string]any{"TxnInfo": nil}, nil
	}
	return map[string]any{"TxnInfo": struct {
		ID      string `json:"id"`
		Status  string `json:"status"`
		Started int64  `json:"started_at"` // microseconds since 1970
		Branch  string `json:"branch"`
	}{c.name, "Active", s.began.UnixMicro(), s.branch}}, nil
}

// txnIsActive says whether there is a transaction.
type txnIsActive struct{}

func (*txnIsActive) run(c *call) (any, error) {
	return map[string]any{"Bool": c.session != nil}, nil
}
