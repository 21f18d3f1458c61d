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

// An instance is SQLite with a memory of its own, and the one connection in it. It serves one conn
// at a time.
//
//  1. The connection is opened on an empty file, of which SQLite reads nothing but that. The file
//     becomes that of a database when a conn takes the instance; SQLite finds out with the first
//     transaction, as it does when another process has made a database of an empty file.
//  2. So an instance that is new knows of no database, and all of one kind in a pool are alike:
//     what their memory holds differs in the name of their file system. One that has served is made
//     new by writing all of its memory over with what the first one had in it, see template.
//     Nothing of what it served is left for the next.
//
// Making one costs several times what that does: SQLite's initialization, and the system's work for
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
	rest   int32  // *stack while nothing runs
	max    *int64 // how far the memory may grow, in units of wasmPage; nil, too
	broken bool   // a panic has left a call into SQLite: there must be no other
	stop   stopper

	outside  *outside  // nil if the instance cannot be made new
	template *template // nil, too

	extent int       // how far the memory has grown before it was made new, in bytes
	since  time.Time // it is a spare. REQUIRES: Pool.mu
}

// newInstance makes an instance for sessions that write, or for such that read.
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

// configure does what is the same for every database, and reads none.
func (in *instance) configure() error {
	in.limit(in.maxLength)
	if err := in.functions(); err != nil {
		return err
	}
	if in.write {
		// One writer by construction: locks would be taken for nothing, and page 1 written with
		// every commit.
		if err := in.db.Exec("PRAGMA locking_mode=EXCLUSIVE"); err != nil {
			return err
		}
	}
	// Shadow tables of full-text and other indexes, and the schema, stay consistent.
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
	// Where the library passes strings to C there is a part of the file system's name left. This
	// makes blanks of it: memories differ where the whole name is, and nowhere else.
	return in.db.Exec(strings.Repeat(" ", 2*len(in.fs.name)))
}

// decide asks the authorizer of the conn that is served.
func (in *instance) decide(action sqlite3.AuthorizerActionCode, third, fourth, schema,
	inside string) sqlite3.AuthorizerReturnCode {
	if in.serves == nil {
		return sqlite3.AUTH_OK
	}
	return in.serves.auth.decide(action, third, fourth, schema, inside)
}

// maxStatement bounds the text of statements, in bytes.
const maxStatement = 1_000_000

// What a statement nests at most: beyond these, or a little beyond, C's stack is used up, which
// costs the connection and the session.
const (
	maxDepth    = 500 // of the parser, and of an expression
	maxCompound = 150 // terms of a compound SELECT
)

// MaxParameters bounds the arguments of a statement.
const MaxParameters = 32766

// limit sets the limits of SQLite that its defaults leave too high here.
func (in *instance) limit(length int) {
	for _, l := range []struct {
		id    sqlite3.LimitCategory
		value int
	}{
		{sqlite3.LIMIT_LENGTH, length},
		// The library reads names up to so many bytes, and panics at longer ones.
		{sqlite3.LIMIT_SQL_LENGTH, maxStatement},
		{sqlite3.LIMIT_VARIABLE_NUMBER, MaxParameters},
		{sqlite3.LIMIT_PARSER_DEPTH, maxDepth},
		{sqlite3.LIMIT_EXPR_DEPTH, maxDepth},
		{sqlite3.LIMIT_COMPOUND_SELECT, maxCompound},
		// A pattern takes time in proportion to its length times that of the text, and no context
		// interrupts that.
		{sqlite3.LIMIT_LIKE_PATTERN_LENGTH, 1000},
	} {
		in.db.Limit(l.id, l.value)
	}
}

// mostReused is the largest memory of an instance that becomes a spare, in bytes, because a spare
// keeps its memory.
const mostReused = 1 << 20

// renew resets the instance and reports whether it could; otherwise the instance must be closed. No
// conn uses it.
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

// closeStatements closes each statement that a new instance does not have, because the library
// keeps a list of them.
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

// close closes the instance, whatever state it is in.
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

// A template is the memory of an instance that is new, for all of its kind in a pool.
type template struct {
	blocks []*block // nil: zeros
	names  []int    // where the name of its file system is
}

// A block is a part of a memory, of the size of a page of the system or less.
type block = [4096]byte

// newTemplate copies the memory of an instance that is new.
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

// restore makes the memory what it was, to the last byte; the name is that of the instance's file
// system. What the memory has grown by is taken from it, and is zero when SQLite asks for it again.
// Blocks that are as they should be, which is more than half, are not written: the system may not
// have given memory for them yet.
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

// templateOf returns the template for an instance that is new, which makes it if it is the first.
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
