package token

import (
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host/kv"
)

// The bounds of tokens.
const (
	MaxTokens = 1_000     // of an actor
	MaxLabel  = 200       // bytes of a label
	MaxPrefix = 1024      // packed bytes of a prefix
	MaxTTL    = kv.MaxTTL // milliseconds
)

// Rights are the operations that a token allows.
type Rights uint8

// The rights.
const (
	// Read allows methods that read entries, their counts and their indexes.
	Read Rights = 1 << iota
	// Write allows commits. Without Read they have no checks and no filters, only put and delete,
	// and their results tell nothing about the entries.
	Write
	// Watch allows to follow changes. It needs Read, because changes have values.
	Watch
	// Inspect allows to read all of the actor: its status, raw keyspace, events and traces, and
	// methods that read. It needs Read, and a token of the whole store. A new token with it ends
	// the previous one.
	Inspect
)

// words are the names of the rights, in order.
var words = []string{"read", "write", "watch", "inspect"}

// ParseRight returns the right with a name; 0 if there is none.
func ParseRight(word string) Rights {
	for i, w := range words {
		if w == word {
			return 1 << i
		}
	}
	return 0
}

// Words returns the names of the rights.
func (r Rights) Words() []string {
	list := []string{}
	for i, w := range words {
		if r&(1<<i) != 0 {
			list = append(list, w)
		}
	}
	return list
}

// String returns the names with commas between them.
func (r Rights) String() string { return strings.Join(r.Words(), ",") }

// A Token is a token of an actor, without its secret.
type Token struct {
	// ID names the token. It is part of its text, and no secret.
	ID    string `json:"id"`
	Label string `json:"label,omitempty"`
	// Rights are some of read, write, watch and inspect.
	Rights []string `json:"rights"`
	// Prefix limits the token to keys that begin with it; absent for the whole store.
	Prefix  kv.Key    `json:"prefix,omitempty"`
	Created time.Time `json:"created"`
	// Expires is when the token ends; absent for never.
	Expires *time.Time `json:"expires,omitempty"`
}

// CreateInput asks for a new token.
type CreateInput struct {
	// Rights are some of read, write, watch and inspect. The last two need read. A new token with
	// inspect ends the previous one.
	Rights []string `json:"rights" max:"100"`
	// Prefix limits the token to keys that begin with it; absent or [] for the whole store.
	Prefix kv.Key `json:"prefix,omitempty"`
	// Label is any text of up to MaxLabel bytes.
	Label string `json:"label,omitempty"`
	// TTLMS is how long the token is valid, up to 100 years; absent for ever.
	TTLMS int64 `json:"ttl_ms,omitempty" range:"1,3153600000000"`
}

// CreateOutput has a new token. Text is shown here and never again, because only a hash of its
// secret is stored.
type CreateOutput struct {
	Text string `json:"token"`
	Token
}

// ListOutput has the valid tokens of an actor, in the order of their creation.
type ListOutput struct {
	Tokens []Token `json:"tokens"`
}

// RevokeInput names a token by its id.
type RevokeInput struct {
	ID string `json:"id"`
}
