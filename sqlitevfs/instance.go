package sqlitevfs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// An instance is SQLite with its own memory and one connection in it. It serves one conn at a time.
//
//  1. The connection is opened on an empty file. When a conn takes the instance, the file becomes
//     that of a database. SQLite finds out with the first transaction, as if another process had
//     filled the empty file.
//  2. So a new instance has no data of any database, and all of one kind in a pool are alike: their
//     memory differs only in the name of their file system. A used instance becomes new by
//     overwriting its whole memory with that of the first one, see template. No data is left for
//     the next conn.
//
// Making a new one costs several times as much: SQLite's initialization, and the system's work for
// memory that is touched for the first time.
type instance struct {
	db                      *sqlite3.Conn
	file                    *file
	fs                      *fileSystem
	begin, commit, rollback *sqlite3.Stmt
	write                   bool
	maxLength               int
	serves                  *conn // or nil

	inner  inner   // nil if the library does not show it
	memory *[]byte // nil, too; as is stack
	stack  *int32
	rest   int32  // *stack while no call runs
	max    *int64 // limit of the memory, in units of wasmPage; nil, too
	broken bool   // a panic has left a call into SQLite: no other call is allowed
	stop   stopper

	outside  *outside  // nil if the instance cannot be renewed
	template *template // nil, too

	extent int       // size that the memory had before it was renewed, in bytes
	since  time.Time // when it became a spare. REQUIRES: Pool.mu
}

// newInstance makes an instance for write sessions or for read sessions.
func (p *Pool) newInstance(write bool) (_ *instance, err error) {
	p.mu.Lock()
	p.serial++
	name := fmt.Sprintf("%s%016x", p.prefix, p.serial) // all are of the same length
	p.mu.Unlock()
	in := &instance{write: write, maxLength: p.options.MaxLength}
	in.file = &file{write: write, buffers: &p.buffers, limit: p.options.TurnBytes, stop: &in.stop}
	in.fs = &fileSystem{name: name, main: in.file, temp: p.temporary.part(p.options.Temporary),
		undo: p.temporary.part(2 * p.options.TurnBytes)}
	vfs.Register(name, in.fs)
	defer func() {
		if v := recover(); v != nil {
			if err = in.failure(v); err == nil {
				in.close(p.options.Logger)
				panic(v)
			}
		}
		if err != nil {
			err = limited(wrap(err, ""), p.limits(Limits{}), 0, 0)
			in.close(p.options.Logger)
		}
	}()
	db, err := sqlite3.OpenContext(p.open, "file:"+mainName+"?vfs="+name)
	if err != nil {
		return nil, err
	}
	in.attach(db)
	if err := in.configure(); err != nil {
		return nil, err
	}
	if in.outside = outsideOf(db); in.outside != nil {
		in.template = p.templateOf(in)
	}
	return in, nil
}

// configure sets up what all databases share, and reads none of them.
func (in *instance) configure() error {
	in.limit(in.maxLength)
	if err := in.functions(); err != nil {
		return err
	}
	if in.write {
		// There is one writer by construction: locks would be useless, and page 1 would be written
		// with every commit.
		if err := in.db.Exec("PRAGMA locking_mode=EXCLUSIVE"); err != nil {
			return err
		}
	}
	// Keeps the shadow tables of full-text and other indexes, and the schema, consistent.
	if _, err := in.db.Config(sqlite3.DBCONFIG_DEFENSIVE, true); err != nil {
		return err
	}
	if err := in.db.SetAuthorizer(in.decide); err != nil {
		return err
	}
	for _, x := range []struct {
		stmt **sqlite3.Stmt
		text string
	}{{&in.begin, "BEGIN"}, {&in.commit, "COMMIT"}, {&in.rollback, "ROLLBACK"}} {
		var err error
		if *x.stmt, _, err = in.db.PrepareFlags(x.text, sqlite3.PREPARE_PERSISTENT); err != nil {
			return err
		}
	}
	// A part of the file system's name stays where the library passed strings to C. This overwrites
	// it with blanks: so memories differ only where the whole name is.
	return in.db.Exec(strings.Repeat(" ", 2*len(in.fs.name)))
}

// decide calls the authorizer of the current conn.
func (in *instance) decide(action sqlite3.AuthorizerActionCode, third, fourth, schema,
	inside string) sqlite3.AuthorizerReturnCode {
	if in.serves == nil {
		return sqlite3.AUTH_OK
	}
	return in.serves.auth.decide(action, third, fourth, schema, inside)
}

// maxStatement bounds the text of statements, in bytes.
const maxStatement = 1_000_000

// The deepest nesting of a statement. At these depths, or a little beyond, C's stack is used up,
// which costs the connection and the session.
const (
	maxDepth    = 500 // of the parser, and of an expression
	maxCompound = 150 // terms of a compound SELECT
)

// MaxParameters bounds the arguments of a statement.
const MaxParameters = 32766

// limit sets the limits of SQLite whose defaults are too high here.
func (in *instance) limit(length int) {
	for _, l := range []struct {
		id    sqlite3.LimitCategory
		value int
	}{
		{sqlite3.LIMIT_LENGTH, length},
		// The library reads names up to this length, and panics at longer ones.
		{sqlite3.LIMIT_SQL_LENGTH, maxStatement},
		{sqlite3.LIMIT_VARIABLE_NUMBER, MaxParameters},
		{sqlite3.LIMIT_PARSER_DEPTH, maxDepth},
		{sqlite3.LIMIT_EXPR_DEPTH, maxDepth},
		{sqlite3.LIMIT_COMPOUND_SELECT, maxCompound},
		// A pattern takes time in proportion to its length times that of the text, without an
		// interrupt.
		{sqlite3.LIMIT_LIKE_PATTERN_LENGTH, 1000},
	} {
		in.db.Limit(l.id, l.value)
	}
}

// mostReused is the largest memory of an instance that becomes a spare, in bytes, because a spare
// keeps its memory.
const mostReused = 1 << 20

// renew resets the instance and reports whether it could; otherwise the instance must be closed. No
// conn may use it.
func (in *instance) renew() bool {
	if in.template == nil || in.broken || !in.atRest() || len(*in.memory) > mostReused {
		return false
	}
	if attempt(in.closeStatements) != nil || !in.atRest() || !in.outside.restore() {
		return false
	}
	*in.file = file{write: in.write, buffers: in.file.buffers, limit: in.file.limit, stop: in.file.stop}
	in.db.SetInterrupt(context.Background())
	in.serves = nil
	in.extent = max(in.extent, len(*in.memory))
	in.template.restore(in.memory, in.fs.name)
	return true
}

// closeStatements closes each statement that a new instance does not have; the library keeps a list
// of them.
func (in *instance) closeStatements() error {
	own := 0
	for _, s := range slices.Collect(in.db.Stmts()) {
		if s == in.begin || s == in.commit || s == in.rollback {
			own++
			continue
		}
		_ = s.Close() // the error is that of its last step
	}
	if own != 3 {
		return errBroken
	}
	return nil
}

// close closes the instance, regardless of its state.
func (in *instance) close(logger *slog.Logger) {
	in.fs.close()
	if in.db == nil {
		return
	}
	bytes := 0
	if in.memory != nil {
		bytes = len(*in.memory)
	}
	err := errBroken
	if !in.broken {
		err = closeNative(in.db)
	}
	if err != nil && in.inner != nil {
		err = attempt(in.inner.Close)
	}
	if err != nil {
		logger.Error("a SQLite connection could not be closed, and its memory is lost", "bytes", bytes, "error", err)
	}
}

// A template is the memory of a new instance, for all instances of its kind in a pool.
type template struct {
	blocks []*block // nil: zeros
	names  []int    // offsets of its file system's name
}

// A block is a part of a memory, up to the size of a page of the system.
type block = [4096]byte

// newTemplate copies the memory of a new instance.
func newTemplate(memory []byte, name string) *template {
	t := &template{blocks: make([]*block, len(memory)/len(block{}))}
	for i := range t.blocks {
		if b := block(memory[i*len(block{}):]); b != (block{}) {
			t.blocks[i] = &b
		}
	}
	for at := 0; ; at += len(name) {
		i := bytes.Index(memory[at:], []byte(name))
		if i < 0 {
			return t
		}
		at += i
		t.names = append(t.names, at)
	}
}

// restore resets the memory to that of the template, byte for byte; name is that of the instance's
// file system. It cuts off the memory that was added since, which is zero when SQLite grows it
// again. It does not write blocks that are already right, which is more than half: the system may
// not have given memory for them yet.
func (t *template) restore(memory *[]byte, name string) {
	var zero block
	m := *memory
	for i := range len(m) / len(zero) {
		has, wants := m[i*len(zero):][:len(zero)], &zero
		if i < len(t.blocks) && t.blocks[i] != nil {
			wants = t.blocks[i]
		}
		if !bytes.Equal(has, wants[:]) {
			copy(has, wants[:])
		}
	}
	for _, at := range t.names {
		copy(m[at:], name)
	}
	*memory = m[:len(t.blocks)*len(zero)]
}

// templateOf returns the template for a new instance, and makes it from the first one.
func (p *Pool) templateOf(in *instance) *template {
	kind := &p.templates[0]
	if in.write {
		kind = &p.templates[1]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if *kind == nil {
		*kind = newTemplate(*in.memory, in.fs.name)
	}
	return *kind
}
