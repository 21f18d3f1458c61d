package conn

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/cached"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// connectionRecord is the value of KindConnections.
//
// While an actor has such a record, the wake index has a row of it that is due at 0, so that a
// start finds the connections that the node was holding. A record with Due set has a row of its own
// at that time, with the connection as its name.
type connectionRecord struct {
	_         struct{} `cbor:",toarray"`
	Token     []byte   // SHA-256 of the resume token
	Params    []byte   // JSON
	State     []byte
	Events    []subscriptionRecord // in the order of subscribing
	Transport string
	Connected int64 // unix milliseconds
	Lost      int64 // when the client was lost; 0 while it is there
	Due       int64 // when the connection of a lost client ends; 0 while it is there
}

// subscriptionRecord is the subscription of a connection to an event, after a sequence.
type subscriptionRecord struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	After uint64
}

// tokenHash is the length of the hash of a resume token.
const tokenHash = sha256.Size

// NewConnectionID makes the id of a connection.
func NewConnectionID() string { return rand.Text() }

// newResumeToken makes the secret with which a client comes back to a connection: its id, a dot,
// and 128 random bits.
func newResumeToken(id string) string {
	var b [16]byte
	rand.Read(b[:])
	return id + "." + base64.RawURLEncoding.EncodeToString(b[:])
}

// tokenID returns the connection that a resume token is for, if it is one.
func tokenID(token string) (string, bool) {
	const most = 128 // tokens are shorter, and ids are keys
	id, _, ok := strings.Cut(token, ".")
	return id, ok && id != "" && len(token) <= most
}

// matches reports whether token is the connection's, in a time that says nothing about it.
func (r *connectionRecord) matches(token string) bool {
	hash := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(hash[:], r.Token) == 1
}

// names returns the events that the connection is subscribed to.
func (r *connectionRecord) names() []string {
	names := make([]string, len(r.Events))
	for i := range r.Events {
		names[i] = r.Events[i].Name
	}
	return names
}

func (r *connectionRecord) subscribed(name string) bool {
	return slices.ContainsFunc(r.Events, func(s subscriptionRecord) bool { return s.Name == name })
}

// state is the record as actors see it.
func (r *connectionRecord) state(id string) host.ConnectionState {
	return host.ConnectionState{
		ID: id, Params: r.Params, State: r.State, Events: r.names(), Transport: r.Transport,
		Connected: utcMS(r.Connected), Lost: utcMS(r.Lost),
	}
}

func utcMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return clock.TimeMS(ms).UTC()
}

func noConnection(id string) *host.Error {
	return host.Errorf(host.NotFound, "there is no connection %q", id).With("connection", id)
}

func readConnection(r engine.Reader, id string) (rec connectionRecord, ok bool, err error) {
	if id == "" {
		return rec, false, nil
	}
	e, ok, err := r.Get(keyspace.Connection.Append(nil, id))
	if err != nil || !ok {
		return rec, false, err
	}
	return rec, true, record.Decode(e.Value, &rec)
}

// A connectionEntry is a record with its id.
type connectionEntry struct {
	id  string
	rec connectionRecord
}

// listConnections reads a page of connections in the order of their ids, at most limit and about 1
// MiB.
func listConnections(l call.Lister, after string, limit int) (out []connectionEntry, more bool, err error) {
	start, end := keyspace.Connection.Range()
	if after != "" {
		start = append(keyspace.Connection.Append(nil, after), 0)
	}
	page, err := l.List(engine.ListQuery{Start: start, End: end, Limit: limit, MaxBytes: 1 << 20})
	if err != nil {
		return nil, false, err
	}
	for _, e := range page.Entries {
		c := connectionEntry{}
		if c.id, err = keyspace.Connection.Parse(e.Key); err != nil {
			return nil, false, err
		}
		if err := record.Decode(e.Value, &c.rec); err != nil {
			return nil, false, err
		}
		out = append(out, c)
	}
	return out, page.Next != nil, nil
}

// connectionStates reads up to limit connections as actors see them.
func connectionStates(l call.Lister, after string, limit int) ([]host.ConnectionState, error) {
	switch {
	case limit < 0:
		return nil, host.Errorf(host.InvalidArgument, "limit %d is negative", limit)
	case limit == 0:
		limit = 1000
	}
	var out []host.ConnectionState
	for more := true; more && len(out) < limit; {
		var page []connectionEntry
		var err error
		if page, more, err = listConnections(l, after, limit-len(out)); err != nil {
			return nil, err
		}
		for i := range page {
			out = append(out, page[i].rec.state(page[i].id))
			after = page[i].id
		}
	}
	return out, nil
}

// putConnection writes a record that an application has changed.
func putConnection(c *kernel.Core, id string, rec *connectionRecord) error {
	return writeConnection(c, id, rec, engine.PutOptions{})
}

// markConnection writes a record of a lost or returned client, which a full actor must not refuse.
func markConnection(c *kernel.Core, id string, rec *connectionRecord) error {
	return writeConnection(c, id, rec, engine.PutOptions{Exempt: true})
}

func writeConnection(c *kernel.Core, id string, rec *connectionRecord, o engine.PutOptions) error {
	b, err := record.Encode(rec)
	if err != nil {
		return err
	}
	return c.Rows.Put(keyspace.Connection.Append(nil, id), b, o)
}

// addConnection writes a new record.
func addConnection(c *kernel.Core, id string, rec *connectionRecord) error {
	n, err := countConnections(c)
	if err != nil {
		return err
	}
	if err := putConnection(c, id, rec); err != nil {
		return err
	}
	c.Arm(keyspace.WakeConnections, true)
	connCoreOf(c).count.Set(c.Rows, n+1)
	return nil
}

// removeConnection deletes a record.
func removeConnection(c *kernel.Core, id string, rec *connectionRecord) error {
	n, err := countConnections(c)
	if err != nil {
		return err
	}
	if _, err := c.Rows.Delete(keyspace.Connection.Append(nil, id)); err != nil {
		return err
	}
	if rec.Due != 0 {
		c.Rows.ClearWake(rec.Due, keyspace.WakeConnections, id, "")
	}
	if n <= 1 {
		c.Arm(keyspace.WakeConnections, false)
	}
	connCoreOf(c).count.Set(c.Rows, n-1)
	return nil
}

// countConnections returns the number of connections of the actor, lost ones included.
func countConnections(c *kernel.Core) (int, error) {
	return connCoreOf(c).count.Get(c.Rows, func() (int, error) {
		start, end := keyspace.Connection.Range()
		n := 0
		var after []byte
		for {
			page, err := c.Rows.List(engine.ListQuery{Start: start, End: end, KeysOnly: true, After: after})
			if err != nil {
				return 0, err
			}
			n += len(page.Entries)
			if after = page.Next; after == nil {
				return n, nil
			}
		}
	})
}

// connCore caches the number of an awake actor's connections.
type connCore struct{ count cached.Value[int] }

func connCoreOf(c *kernel.Core) *connCore {
	return attach.Make(&c.Attached, func() *connCore { return new(connCore) })
}

// Forget implements kernel.Facet.
func (f *connCore) Forget(_ *kernel.Core, version engine.Version) { f.count.Forget(version) }

// Close implements kernel.Facet.
func (*connCore) Close(*kernel.Core) {}

// Abandon implements kernel.Facet.
func (*connCore) Abandon(*kernel.Core) {}

// Wakes implements kernel.Waker. A row that an unreadable record would leave behind finds no actor
// and is dropped.
func (*Part) Wakes(from engine.Reader) (rows []engine.Wake, _ error) {
	after := ""
	for {
		page, more, err := listConnections(from, after, 1000)
		if err != nil || len(page) == 0 {
			return rows, nil
		}
		for i := range page {
			if due := page[i].rec.Due; due != 0 {
				rows = append(rows, engine.Wake{Due: due, Kind: keyspace.WakeConnections, Name: page[i].id})
			}
			after = page[i].id
		}
		if !more {
			return rows, nil
		}
	}
}

// Connections implements host.Reader.
func (h Reads[S]) Connections(after string, limit int) ([]host.ConnectionState, error) {
	r := h.K
	return call.Reading(r,
		func(rows engine.Reader) ([]host.ConnectionState, error) { return connectionStates(rows, after, limit) })
}

// Connection implements host.Reader.
func (h Reads[S]) Connection(id string) (state host.ConnectionState, ok bool, err error) {
	r := h.K
	state, err = call.Reading(r, func(rows engine.Reader) (host.ConnectionState, error) {
		var rec connectionRecord
		if rec, ok, err = readConnection(rows, id); !ok || err != nil {
			return host.ConnectionState{}, err
		}
		return rec.state(id), nil
	})
	return state, ok, err
}
