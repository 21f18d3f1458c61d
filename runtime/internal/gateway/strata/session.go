package strata

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// The limits of transactions.
const (
	idle          = 30 * time.Second
	maxSessions   = 30_000           // transactions of a gateway: see sessions.take
	maxOfActor    = 300              // of an actor
	maxBytes      = hostkv.MaxCommit // that one has read and is to write: no more than its commit takes
	maxActorBytes = 32 << 20         // that all of an actor have
	maxAllBytes   = 64 << 20         // that all of a gateway have
	maxLapsed     = 10_000           // transactions that ended by themselves, and that are remembered for that
	entryBytes    = 512              // what an entry costs besides its key and value
	listBytes     = 5 << 10          // what a page of a listing costs besides its bounds, which are in it three times
	madeSessions  = "txn:"           // begins the names of sessions that TxnBegin makes
)

// A sessionKey names a session. Each actor has names of its own, and so have callers with other
// credentials: one may not read or commit what another has in its transaction.
type sessionKey struct {
	actor  string
	caller [sha256.Size]byte
	name   string
}

func keyOfSession(r *kvrest.Request, name string) sessionKey {
	credentials := [][]string{{r.Token}}
	if r.Token == "" { // what comes with an actor's token does not make another caller of it
		credentials = append(credentials, r.R.Header["Authorization"], r.R.Header["Cookie"])
	}
	caller := sha256.Sum256(fmt.Appendf(nil, "%q", credentials))
	return sessionKey{fmt.Sprintf("%q", append([]string{r.Address.Type}, r.Address.Key...)), caller, name}
}

// takers are what a session counts for: the caller at its actor, the actor, and the gateway.
func (k sessionKey) takers() [3]sessionKey {
	return [3]sessionKey{{k.actor, k.caller, ""}, {actor: k.actor}, {}}
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
	mu    sync.Mutex
	open  map[sessionKey]*session // also such that lapsed
	order list.List               // with a transaction, the least recently used first
	ended list.List               // such that lapsed, the first first
	taken map[sessionKey]usage    // of each taker
}

// usage is what transactions take.
type usage struct{ transactions, bytes int }

// take counts what a session takes more. A caller gets no more of its actor than it leaves free
// there, and an actor no more of the gateway: so none takes all. A third of the transactions is for
// callers without any. REQUIRES: mu.
func (r *sessions) take(s *session, n usage) error {
	takers := s.key.takers()
	newcomer := r.taken[takers[0]].transactions == 0
	for i, most := range []usage{{maxOfActor, maxActorBytes}, {maxSessions, maxAllBytes}} {
		mine, all, who := r.taken[takers[i]], r.taken[takers[i+1]], [...]string{"this caller", "this actor"}[i]
		shared := most.transactions - most.transactions/3
		if n.transactions > 0 && all.transactions >= most.transactions {
			return host.Errorf(host.Overloaded,
				"all %d transactions of %s are taken; one ends %s after its last command", most.transactions, [...]string{"this actor", "the node"}[i], idle).Retry()
		}
		if n.transactions > 0 && !newcomer && mine.transactions+all.transactions+2 > shared {
			return host.Errorf(host.Overloaded,
				"%s has %d transactions, and the rest is for others; one ends %s after its last command", who, mine.transactions, idle).Retry()
		}
		if n.bytes > 0 && mine.bytes+all.bytes+2*n.bytes > most.bytes {
			return host.Errorf(host.Overloaded,
				"the transactions of %s take %d bytes, and the rest is for others", who, mine.bytes).Retry()
		}
	}
	r.count(s, n)
	return nil
}

// count is take without limits. REQUIRES: mu.
func (r *sessions) count(s *session, n usage) {
	s.bytes += n.bytes
	for _, k := range s.key.takers() {
		u := r.taken[k]
		u.transactions += n.transactions
		u.bytes += n.bytes
		if r.taken[k] = u; u == (usage{}) {
			delete(r.taken, k)
		}
	}
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

// lapse ends the transaction of a session, and remembers that. REQUIRES: mu, and no other request
// that uses the session.
func (r *sessions) lapse(s *session) {
	r.drop(s)
	s.tx, s.lapsed = nil, true
	s.spaces, s.store = nil, kv.Store{}
	s.place = r.ended.PushBack(s)
	if r.ended.Len() > maxLapsed {
		r.forget(r.ended.Front().Value.(*session))
	}
}

// drop takes a session out of those with a transaction. REQUIRES: mu.
func (r *sessions) drop(s *session) {
	r.order.Remove(s.place)
	r.count(s, usage{-1, -s.bytes})
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
			return named("TransactionAlreadyActive", host.FailedPrecondition,
				"the session has a transaction; commit or roll it back first")
		}
		r.forget(was)
	}
	if err := r.take(s, usage{transactions: 1}); err != nil {
		return err
	}
	s.turn, s.used, s.users = make(chan struct{}, 1), now, 1
	s.turn <- struct{}{}
	s.place = r.order.PushBack(s)
	r.open[s.key] = s
	return nil
}

// enter waits until no other request uses a session. Both results are nil if it has no transaction.
// After one that is active, leave must follow.
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
	if s.bytes+n > maxBytes {
		return host.OverLimit("bytes of a transaction", maxBytes, int64(s.bytes+n))
	}
	return r.take(s, usage{bytes: n})
}

// do adds mutations to the transaction of a session.
func (r *sessions) do(c *kvrest.Request, s *session, space string, size int, mutations []kv.Mutation) error {
	if err := c.Allow(host.KVCommit); err != nil {
		return err
	}
	if s.readOnly {
		return named("AccessDenied", host.FailedPrecondition, "the transaction only reads")
	}
	if err := r.grow(s, size+len(mutations)*(entryBytes+len(space))); err != nil {
		return err
	}
	s.spaces[space] = struct{}{}
	return s.tx.Do(mutations...)
}

// reads are the entries as a transaction sees them.
type reads struct {
	c *kvrest.Request
	s *session
	r *sessions
}

// grow counts what the transaction has read. One that has read too much ends, because it has it
// already.
func (v reads) grow(n int) error {
	err := v.r.grow(v.s, n)
	if err != nil {
		v.r.end(v.s)
	}
	return err
}

// GetMany implements entries.
func (v reads) GetMany(ctx context.Context, keys ...kv.Key) ([]*kv.Entry, error) {
	if err := v.c.Allow(host.KVGetMany); err != nil { // some of them may have been read before, by another request
		return nil, err
	}
	size := 0
	for _, key := range keys {
		size += entryBytes + sizeOfKey(key)
	}
	if err := v.grow(size); err != nil {
		return nil, err
	}
	found, err := v.s.tx.GetMany(ctx, keys...)
	if err != nil {
		return nil, err
	}
	size = 0
	for _, e := range found {
		if e != nil {
			size += len(e.Value.Data)
		}
	}
	return found, v.grow(size)
}

// All implements entries. It keeps nothing of an entry.
func (v reads) All(ctx context.Context, c kv.ListConfig) iter.Seq2[kv.Entry, error] {
	return func(yield func(kv.Entry, error) bool) {
		page := listBytes + 3*(sizeOfKey(c.Prefix)+sizeOfKey(c.Start)+sizeOfKey(c.End))
		n := 0
		for e, err := range v.s.tx.All(ctx, c) {
			if n%cmp.Or(c.Limit, hostkv.DefaultPage) == 0 && err == nil {
				err = v.grow(page)
			}
			if n++; !yield(e, err) || err != nil {
				return
			}
		}
		if n == 0 {
			if err := v.grow(page); err != nil {
				yield(kv.Entry{}, err)
			}
		}
	}
}

// sizeOfKey is about what a key takes: its parts, which are strings or bytes.
func sizeOfKey(key kv.Key) (n int) {
	for _, part := range key {
		n += 32
		switch part := part.(type) {
		case string:
			n += 2 * len(part) // in its packed form, too
		case []byte:
			n += 2 * len(part)
		}
	}
	return n
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
		key: keyOfSession(c.Request,
			name), link: c.link, store: c.store, branch: branch, readOnly: in.Options != nil && in.Options.ReadOnly,
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
	if err == nil {
		err = c.Allow(host.KVCommit)
	}
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
