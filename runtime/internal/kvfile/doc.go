// Package kvfile has the files that entries of a key-value store are exported to and imported from: lines of JSON,
// SQLite databases, and the files of two other stores, Codebolt and go-store. docs/operate/kv.md describes them.
package kvfile

import "github.com/cairn-run/cairn/actor/kv"

// An Item is an entry of a file. At says where it stands, such as "line 7".
type Item struct {
	kv.Entry
	At string
}
