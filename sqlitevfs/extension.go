package sqlitevfs

import (
	"errors"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/ncruces/go-sqlite3/ext/rtree"
	"github.com/ncruces/go-sqlite3/ext/vec1"
)

// extensions is a set of extensions. Registering them costs 0.2 ms, several times as much as
// opening a connection. So a connection registers one when a statement needs it, and the database's
// next connection registers it at once.
type extensions uint8

const (
	withFTS5 extensions = 1 << iota
	withRTree
	withVec1
)

// extensionOf returns the extension that has a module, table or function, or 0.
func extensionOf(name string) extensions {
	name = strings.ToLower(name)
	switch name {
	case "fts5", "fts5vocab", "bm25", "highlight", "snippet":
		return withFTS5
	case "rtree", "rtree_i32", "geopoly", "rtreenode", "rtreedepth", "rtreecheck":
		return withRTree
	case "vec1", "vec1cat":
		return withVec1
	}
	switch {
	case strings.HasPrefix(name, "fts5_"):
		return withFTS5
	case strings.HasPrefix(name, "geopoly_"):
		return withRTree
	case strings.HasPrefix(name, "vec1_"):
		return withVec1
	}
	return 0
}

// missing returns the extension that a statement lacked, from the text of its error, or 0. It
// ignores an error whose text the statement itself has made: the statement may be run again.
func missing(err error) extensions {
	var code sqlite3.ErrorCode
	if !errors.As(err, &code) {
		return 0
	}
	_, text, _ := strings.Cut(strings.TrimPrefix(err.Error(), "sqlite3: "), ": ")
	inSchema := code == sqlite3.ERROR && strings.HasPrefix(text, "error in ") ||
		code == sqlite3.CORRUPT && strings.HasPrefix(text, "malformed database schema ")
	if code != sqlite3.ERROR && !inSchema {
		return 0
	}
	for _, what := range []string{"no such module: ", "no such function: ", "unknown function: ", "no such table: "} {
		before, name, found := strings.Cut(text, what)
		if found && (before == "" || inSchema) {
			if i := strings.IndexFunc(name, notInName); i >= 0 {
				name = name[:i]
			}
			return extensionOf(name)
		}
	}
	return 0
}

func notInName(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// extend registers the extension that a statement lacked, and returns true if the statement is
// worth another try.
func (c *conn) extend(err error) bool {
	e := missing(err) &^ c.extensions
	return e != 0 && c.register(e) == nil
}

// register adds extensions to a connection. A new connection gets the extensions of the database's
// last one.
func (c *conn) register(e extensions) error {
	return c.internally(func() error {
		for _, x := range []struct {
			bit      extensions
			register func(*sqlite3.Conn) error
		}{{withFTS5, fts5.Register}, {withRTree, rtree.Register}, {withVec1, vec1.Register}} {
			if e&x.bit == 0 || c.extensions&x.bit != 0 {
				continue
			}
			if err := x.register(c.db); err != nil {
				return err
			}
			c.extensions |= x.bit
		}
		return nil
	})
}
