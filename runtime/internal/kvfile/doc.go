// Package kvfile has the files that entries of a key-value store are exported to and imported from:
// lines of JSON, SQLite databases, and the files of two other stores, Codebolt and go-store.
// docs/operate/kv.md describes them.
package kvfile

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
)

// An Item is an entry of a file. At says where it stands, such as "line 7"; Line is the number of
// the line, if it is one.
type Item struct {
	kv.Entry
	At   string
	Line int
}

// Located puts the place of an entry before the text of an error about it.
func Located(at string, err error) error {
	e, is := errors.AsType[*host.Error](err)
	if !is {
		return fmt.Errorf("%s: %w", at, err)
	}
	there := *e
	there.Message = at + ": " + e.Message
	return &there
}
