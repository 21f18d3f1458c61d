package keyspace

import (
	"strconv"
	"unicode/utf8"
)

// Connection is the key of a stored connection: 02 and its id, which is UTF-8
// and not empty.
type Connection struct{ ID string }

// AppendConnection appends the key of a connection.
func AppendConnection(dst []byte, id string) []byte {
	dst = append(dst, byte(KindConnections))
	return append(dst, id...)
}

// ParseConnection returns the id of the connection.
func ParseConnection(key []byte) (string, error) {
	if err := checkKind(key, KindConnections); err != nil {
		return "", err
	}
	id := key[1:]
	if len(id) == 0 {
		return "", &SyntaxError{what(KindConnections), 1, "empty connection id"}
	}
	for i := 0; i < len(id); {
		r, n := utf8.DecodeRune(id[i:])
		if r == utf8.RuneError && n == 1 {
			return "", &SyntaxError{what(KindConnections), 1 + i, "connection id is not UTF-8"}
		}
		i += n
	}
	return string(id), nil
}

// Kind returns [KindConnections].
func (Connection) Kind() Kind { return KindConnections }

// Append appends the bytes of the key.
func (k Connection) Append(dst []byte) []byte { return AppendConnection(dst, k.ID) }

// String returns the form connection("c1").
func (k Connection) String() string { return "connection(" + strconv.Quote(k.ID) + ")" }

func (Connection) key() {}
