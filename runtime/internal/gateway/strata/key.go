package strata

import (
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// The limits of names.
const (
	maxKey     = 1_024 // bytes
	maxName    = 255   // bytes of the name of a space or branch
	maxSession = 255   // bytes
)

const (
	// defaultName is the name of the space, and of the branch, for a command without one.
	defaultName = "default"
	// reserved is a prefix that keys must not have.
	reserved = "_strata/"
)

// check checks a key or prefix.
func (s text) check(member string) *host.Error {
	switch {
	case s == "":
		return invalid(member, "must not be empty")
	case strings.Contains(string(s), "\x00"):
		return invalid(member, "must not contain NUL bytes")
	case strings.HasPrefix(string(s), reserved):
		return invalid(member, "must not start with %q, which is reserved", reserved)
	case len(s) > maxKey:
		return invalid(member, "has %d bytes; it must not have more than %d", len(s), maxKey)
	}
	return nil
}

// A target is the branch and space of a command.
type target struct {
	Branch *text `json:"branch"`
	Space  *text `json:"space"`
}

// name returns the name in a command, or the default.
func (s *text) name(member string) (string, error) {
	switch {
	case s == nil:
		return defaultName, nil
	case *s == "", len(*s) > maxName:
		return "", invalid(member, "has %d bytes; it has 1 to %d", len(*s), maxName)
	case strings.Contains(string(*s), "\x00"):
		return "", invalid(member, "must not contain NUL bytes")
	}
	return string(*s), nil
}

// A space is the space of a command, in a store.
type space struct {
	c     *call
	store kv.Branch
	name  string
}

// open returns the space of a command.
func (t *target) open(c *call) (*space, error) {
	name, err := t.Space.name("space")
	if err != nil {
		return nil, err
	}
	store, err := c.branch(t.Branch)
	return &space{c, store, name}, err
}

// key returns the key of an entry.
func (s *space) key(key text) kv.Key { return kv.Key{s.name, string(key)} }

// keyOf returns the key of an entry for clients. Other interfaces may have stored other keys below
// the name of the space.
func keyOf(key kv.Key) (s string, is bool) {
	if len(key) == 2 {
		s, is = key[1].(string)
	}
	return s, is
}

// names returns the space and the key of an entry.
func names(k kv.Key) (space, key string, is bool) {
	if key, is = keyOf(k); is {
		space, is = k[0].(string)
	}
	return space, key, is
}

// after is the last part of the next key after another one.
var after = hostkv.Raw{0}

// selection selects the keys that begin with a prefix, nil for all, and come after last, "" for
// all. A stored string ends with a zero byte, so the bytes before it are a prefix of all strings
// that begin with it.
func (s *space) selection(prefix *text, last string) (kv.Selection, error) {
	begin := kv.Key{s.name, hostkv.Raw{stringTag}}
	if prefix != nil && *prefix != "" {
		if err := prefix.check("prefix"); err != nil {
			return kv.Selection{}, err
		}
		begin[1] = append(begin[1].(hostkv.Raw), *prefix...) // has no zero byte to escape
	}
	end := kv.Key{s.name, append(begin[1].(hostkv.Raw)[:len(begin[1].(hostkv.Raw)):len(begin[1].(hostkv.Raw))], 0xFF)}
	if last == "" {
		return kv.Selection{Start: begin, End: end}, nil
	}
	if err := text(last).check("cursor"); err != nil {
		return kv.Selection{}, err
	}
	if prefix != nil && !strings.HasPrefix(last, string(*prefix)) {
		return kv.Selection{}, invalid("cursor", "does not belong to this prefix")
	}
	return kv.Selection{Start: kv.Key{s.name, last, after}, End: end}, nil
}

// stringTag begins the stored form of a string.
const stringTag = 0x02

// bounded returns the given limit, or else the usual one.
func bounded(member string, given *uint64, usual, most int) (int, error) {
	switch {
	case given == nil:
		return usual, nil
	case *given < 1 || *given > uint64(most):
		return 0, kvrest.Wrong(member, "%s is %d; it is 1 to %d", member, *given, most)
	}
	return int(*given), nil
}
