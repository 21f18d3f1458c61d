package kv

import (
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
)

// A Key names an entry. See the type for its parts and their order.
type Key = hostkv.Key

// A Placeholder stands for a string that a commit makes. It can be a part of keys of mutations, and
// its text (String) a value in documents of mutations with [Mutation.Resolve]. [Result.Resolved]
// has the string.
type Placeholder = hostkv.Placeholder

// UUIDv7 returns the placeholder of a UUID of version 7, greater than all that earlier commits of
// the actor made. A commit makes one for each name, 1 to 64 letters, digits, "-" and "_"; "" is a
// name too.
func UUIDv7(name string) Placeholder {
	if name == "" {
		return hostkv.UUIDv7
	}
	return hostkv.UUIDv7 + ":" + Placeholder(name)
}

// Versionstamp returns the placeholder of the commit's version as a string in the order of
// versions: 16 hexadecimal digits, and 0000.
func Versionstamp() Placeholder { return hostkv.Versionstamp }

// A Selection selects entries by their keys. The zero value selects all.
type Selection = hostkv.Selection

// A Value is the value of an entry: bytes and their encoding.
type Value struct {
	Encoding host.Encoding
	Data     []byte
}

// JSON returns a document as a value. Numbers keep their digits, and objects the order of their
// members.
func JSON(document []byte) Value { return Value{host.EncodedJSON, document} }

// Text returns a text as a value. It must be UTF-8.
func Text(s string) Value { return Value{host.EncodedText, []byte(s)} }

// Bytes returns bytes as a value. Cairn does not interpret them.
func Bytes(b []byte) Value { return Value{host.EncodedBytes, b} }

// raw returns the value in the form of a request.
func (v Value) raw() (host.Raw, string) {
	return hostkv.ByteString(v.Data), v.Encoding.String()
}

// valueOf decodes a value of a reply.
func valueOf(raw host.Raw, encoding string) (v Value, err error) {
	if v.Data, err = hostkv.Bytes(raw); err != nil {
		return v, host.Errorf(host.Internal, "a value of the node is no byte string")
	}
	v.Encoding, _ = host.ParseEncoding(encoding)
	return v, nil
}

// An Entry is an entry of a store.
type Entry struct {
	Key Key
	// Value is zero in a listing of keys only.
	Value Value
	// Version is the version of the commit that wrote the entry last.
	Version          uint64
	Created, Updated time.Time
	// Expires is when the entry expires; zero for never.
	Expires time.Time
}

func entryOf(e *hostkv.Entry, values bool) (out Entry, err error) {
	out = Entry{Key: e.Key, Version: e.Version, Created: e.Created, Updated: e.Updated}
	if e.Expires != nil {
		out.Expires = *e.Expires
	}
	if values {
		if out.Value, err = valueOf(e.Value, e.Encoding); err != nil {
			return Entry{}, fmt.Errorf("key %v: %w", e.Key, err)
		}
	}
	return out, nil
}
