package kv

import (
	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// New makes the store of an actor, for package actor: Ref.KV.
func New(at site.Site) Store {
	r := Reader{site: at}
	return Store{r, line{r}}
}

// An Opener opens stores by the addresses of actors, for gateways, which have neither types nor
// contracts. Safe for concurrent use.
type Opener struct{ codec *codec.Codec }

// NewOpener makes an Opener.
func NewOpener() *Opener { return &Opener{codec.New()} }

// Open returns the store of an actor of a node.
func (o *Opener) Open(node host.Node, at host.Address) Store {
	return New(site.Site{Node: node, At: at, Codec: o.codec})
}

// Run makes a commit with do, for package actor: KV.Commit.
func Run(c Commit, do func(*hostkv.CommitInput) (hostkv.CommitOutput, error)) (Result, error) {
	return c.run(do)
}
