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
	maxBytes      = hostkv.MaxCommit // of reads and writes of one: the bound of its commit
	maxActorBytes = 32 << 20         // of all of an actor
	maxAllBytes   = 64 << 20         // of all of a gateway
	maxLapsed     = 10_000           // remembered transactions that ended by themselves
	entryBytes    = 512              // the cost of an entry in addition to its key and value
	listBytes     = 5 << 10          // the cost of a page of a listing beside its bounds, which it holds three times
	madeSessions  = "txn:"           // begins the names of sessions that TxnBegin makes
)

// A sessionKey names a session. Each actor has its own names, and so has each caller by its
// credentials: a caller must not read or commit the transaction of another.
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

// takers returns whose limits a session counts against: its caller's at the actor, the actor's, and
// the gateway's.
func (k sessionKey) takers() [3]sessionKey {
	return [3]sessionKey{{k.actor, k.caller, ""}, {actor: k.actor}, {}}
}

// A session is a session with a transaction. One request uses it at a time.
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
	users  int // requests that use it or wait for it
	bytes  int
	lapsed bool // it was idle for too long
}

// sessions are the open transactions of a gateway, and others that ended by themselves.
//
// They have no timers: an idle one ends at the next request for any session.
type sessions struct {
	mu    sync.Mutex
	open  map[sessionKey]*session // with lapsed ones
	order list.List               // with a transaction, the least recently used first
	ended list.List               // lapsed ones, the first lapsed first
	taken map[sessionKey]usage    // of each taker
}

// usage is the resources of transactions.
type usage struct{ transactions, bytes int }

// take counts additional usage of a session, within limits. A caller may use at most as much of its
// actor as it leaves free, and an actor as much of the gateway, so none can take all. A third of
// the transactions is for callers without any. REQUIRES: mu.
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

// sweep ends the transactions that were idle for too long. REQUIRES: mu.
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

// lapse ends the transaction of a session, and remembers that. REQUIRES: mu, and that no other
// request uses the session.
func (r *sessions) lapse(s *session) {
	r.drop(s)
	s.tx, s.lapsed = nil, true
	s.spaces, s.store = nil, kv.Store{}
	s.place = r.ended.PushBack(s)
	if r.ended.Len() > maxLapsed {
		r.forget(r.ended.Front().Value.(*session))
	}
}

// drop removes a session from the list of sessions with a transaction. REQUIRES: mu.
func (r *sessions) drop(s *session) {
	r.order.Remove(s.place)
	r.count(s, usage{-1, -s.bytes})
}

// forget forgets that a session lapsed. REQUIRES: mu.
func (r *sessions) forget(s *session) {
	r.ended.Remove(s.place)
	delete(r.open, s.key)
}

// begin opens a session. The caller may use it until leave.
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
// If active is not nil, the caller must call leave.
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
	if s.tx.Do() != nil { // it was idle for too long, and not swept yet
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

// end ends the transaction of a session that the caller uses.
func (r *sessions) end(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.tx = nil
	r.drop(s)
	delete(r.open, s.key)
}

// acknowledge forgets that a session lapsed, and returns the error for its client.
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

// grow counts bytes that a transaction has read or will write.
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

// reads implements entries for a transaction.
type reads struct {
	c *kvrest.Request
	s *session
	r *sessions
}

// grow counts bytes that the transaction has read. Beyond the limit the transaction ends, because
// the bytes are in memory already.
func (v reads) grow(n int) error {
	err := v.r.grow(v.s, n)
	if err != nil {
		v.r.end(v.s)
	}
	return err
}

// GetMany implements entries.
func (v reads) GetMany(ctx context.Context, keys ...kv.Key) ([]*kv.Entry, error) {
	if err := v.c.Allow(host.KVGetMany); err != nil { // another request may have read some of them before
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

// All implements entries. It keeps no entries.
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

// sizeOfKey estimates the memory of a key, whose parts are strings or bytes.
func sizeOfKey(key kv.Key) (n int) {
	for _, part := range key {
		n += 32
		switch part := part.(type) {
		case string:
			n += 2 * len(part) // also in its packed form
		case []byte:
			n += 2 * len(part)
		}
	}
	return n
}

// txnBegin begins a transaction in the client's session, or in a new one.
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

// needed returns the session; it is an error if that has no transaction.
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
