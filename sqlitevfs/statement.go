package sqlitevfs

import (
	"errors"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// maxCachedText is the length of the longest statement that is kept, in bytes: longer texts are
// hardly ever repeated.
const maxCachedText = 8 << 10

// keptBound is the most bytes of texts and blobs that a kept statement may keep bound. Each run
// binds all parameters again.
const keptBound = 4 << 10

// A class says how a statement is run.
type class uint8

const (
	runOrdinary    class = iota // SQLite runs it
	runNothing                  // nothing runs: the text is blank
	runBegin                    // this and the following: the session runs them, with its own savepoints
	runCommit                   //
	runRollback                 //
	runSavepoint                //
	runRelease                  //
	runRollbackTo               //
	runForeignKeys              // PRAGMA foreign_keys = ...
)

// A statement is one compiled statement of a connection.
type statement struct {
	native     *sqlite3.Stmt // nil unless SQLite runs it
	text       string
	class      class
	name       string   // of the savepoint; "on" or "off"
	parameters int      // how many
	names      []string // of the parameters, with their prefix; nil if none has one
	readOnly   bool
	bound      int // bytes of texts and blobs

	columns []string // see describe
	kinds   []kind   // nil if all are plain
	version int      // SQLite's count of recompilations when these were read

	live         bool // false: it is closed when it is put back
	cached       bool
	busy         bool
	dirty        bool // it did not run to its end and must be reset
	isPragma     bool
	checks       bool // it is PRAGMA integrity_check or quick_check
	reserved     bool // it was compiled in a session that may use reserved tables
	newer, older *statement
}

// statements keeps compiled statements by their text: the ones used last, up to a limit. A
// statement in use stays in the table, but take does not return it again.
type statements struct {
	limit          int // 0 means DefaultStatements
	table          map[string]*statement
	commands       map[string]*statement // the session's own, which are few
	newest, oldest *statement
}

// take returns a kept statement that is not in use, or nil. The caller puts it back. Sessions that
// may use reserved tables share no statements with sessions that may not.
func (k *statements) take(text string, reserved bool) *statement {
	st := k.table[text]
	if st == nil || st.busy || st.reserved != reserved {
		return nil
	}
	st.busy = true
	return st
}

// put resets a statement and keeps it if it may be kept, or else closes it. The error is of the
// reset, where SQLite returns the error of a statement that did not run to its end.
func (k *statements) put(st *statement) (err error) {
	st.busy = false
	if st.dirty {
		st.dirty = false
		err = st.native.Reset()
	}
	if st.bound > keptBound {
		st.native.ClearBindings()
	}
	st.bound = 0
	switch {
	case !st.live || st.isPragma || len(st.text) > maxCachedText:
		st.close()
	case st.cached:
		if k.newest != st {
			k.unlink(st)
			k.link(st)
		}
	case k.table[st.text] != nil: // another one was compiled meanwhile
		st.close()
	default:
		if k.table == nil {
			k.table = make(map[string]*statement)
		}
		k.table[st.text] = st
		st.cached = true
		k.link(st)
		k.shrink()
	}
	return err
}

// shrink closes the statements beyond the limit that are not in use.
func (k *statements) shrink() {
	limit := k.limit
	if limit <= 0 {
		limit = DefaultStatements
	}
	for st := k.oldest; st != nil && len(k.table) > limit; {
		next := st.newer
		if !st.busy {
			k.unlink(st)
			delete(k.table, st.text)
			st.close()
		}
		st = next
	}
}

func (k *statements) link(st *statement) {
	st.older, st.newer = k.newest, nil
	if k.newest != nil {
		k.newest.newer = st
	} else {
		k.oldest = st
	}
	k.newest = st
}

func (k *statements) unlink(st *statement) {
	if st.newer != nil {
		st.newer.older = st.older
	} else {
		k.newest = st.older
	}
	if st.older != nil {
		st.older.newer = st.newer
	} else {
		k.oldest = st.newer
	}
	st.newer, st.older = nil, nil
}

func (st *statement) close() {
	if st.native != nil {
		finalize(st.native)
	}
	st.live = false
}

// finalize closes a statement of the library. The library repeats the error of the last run, and
// panics if it was lack of memory.
func finalize(native *sqlite3.Stmt) {
	defer func() {
		if p := recover(); p != nil && !outOfMemory(p) {
			panic(p)
		}
	}()
	native.Close()
}

var errZero = errors.New("sqlite: there is a zero byte in the text of a statement")

// compile compiles the first statement of a text. The tail is empty if only blanks, comments and
// semicolons follow. The statement is in use: put it back.
func (c *conn) compile(text string) (st *statement, tail string, err error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, "", errZero // SQLite would end the text there
	}
	var (
		native *sqlite3.Stmt
		saw    sight
	)
	for {
		c.auth.watch()
		native, tail, err = c.db.PrepareFlags(text, sqlite3.PREPARE_PERSISTENT)
		saw = c.auth.unwatch()
		if err == nil {
			break
		}
		if !c.extend(err) {
			return nil, "", c.explain(err)
		}
	}
	if blank(tail) {
		tail = ""
	}
	st = &statement{native: native, text: text, busy: true, live: true, reserved: c.auth.reserved}
	if native == nil {
		st.class, st.readOnly = runNothing, true
		return st, tail, nil
	}
	if err := c.auth.refuseReserved(saw, text[:len(text)-len(tail)]); err != nil {
		finalize(native)
		return nil, "", err
	}
	st.isPragma, st.checks = saw.pragma, saw.checks
	if saw.class != runOrdinary && native.ColumnCount() == 0 { // else it is an EXPLAIN of such a statement
		st.class, st.name, st.readOnly, st.native = saw.class, saw.name, true, nil
		finalize(native)
		return st, tail, nil
	}
	if saw.instead != "" && native.ColumnCount() == 0 {
		finalize(native)
		if native, _, err = c.db.Prepare(saw.instead); err != nil {
			return nil, "", c.explain(err)
		}
		st.native = native
	}
	st.readOnly = native.ReadOnly()
	st.parameters = native.BindCount()
	for i := range st.parameters {
		if name := native.BindName(i + 1); name != "" && name[0] != '?' {
			if st.names == nil {
				st.names = make([]string, st.parameters)
			}
			st.names[i] = name
		}
	}
	return st, tail, nil
}

// statement returns the first statement of a text, kept or compiled. Put it back.
func (c *conn) statement(text string) (st *statement, tail string, err error) {
	if st := c.cache.take(text, c.auth.reserved); st != nil {
		return st, "", nil
	}
	st, tail, err = c.compile(text)
	if err == nil && tail != "" {
		st.live = false // the text has more statements: it is closed after use
	}
	return st, tail, err
}

// run runs a statement of class runOrdinary to its end and resets it.
func (c *conn) run(st *statement) error {
	c.auth.checking = st.checks
	defer func() { c.auth.checking = false }()
	for {
		err := st.native.Exec()
		if err == nil || !c.extend(err) {
			return c.explain(err)
		}
	}
}

// command runs one of the session's own statements, which is kept.
func (c *conn) command(text string) error {
	return c.internally(func() error {
		st := c.cache.commands[text]
		if st == nil {
			var err error
			if st, _, err = c.compile(text); err != nil {
				return err
			}
			if c.cache.commands == nil {
				c.cache.commands = make(map[string]*statement)
			}
			c.cache.commands[text] = st
		}
		return c.run(st)
	})
}

// internally calls f while the authorizer allows everything.
func (c *conn) internally(f func() error) error {
	defer func(before bool) { c.auth.internal = before }(c.auth.internal)
	c.auth.internal = true
	return f()
}

// describe reads the names and the kinds of the columns, unless they are current: SQLite compiles a
// statement again when the schema has changed.
func (st *statement) describe() {
	version := st.native.Status(sqlite3.STMTSTATUS_REPREPARE, false)
	if st.columns != nil && st.version == version {
		return
	}
	st.version = version
	st.columns = make([]string, st.native.ColumnCount())
	st.kinds = nil
	for i := range st.columns {
		st.columns[i] = st.native.ColumnName(i)
		if k := kindOf(st.native.ColumnDeclType(i)); k != asIs {
			if st.kinds == nil {
				st.kinds = make([]kind, len(st.columns))
			}
			st.kinds[i] = k
		}
	}
}

// blank reports whether a text has no statement: only blanks, semicolons and comments.
func blank(text string) bool {
	for text != "" {
		switch {
		case strings.IndexByte(" \t\n\f\r;", text[0]) >= 0:
			text = text[1:]
		case strings.HasPrefix(text, "--"):
			i := strings.IndexByte(text, '\n')
			if i < 0 {
				return true
			}
			text = text[i+1:]
		case strings.HasPrefix(text, "/*"):
			i := strings.Index(text[2:], "*/")
			if i < 0 {
				return true // for SQLite the end of the text ends a comment
			}
			text = text[2+i+2:]
		default:
			return false
		}
	}
	return true
}
