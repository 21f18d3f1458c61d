package kv

import (
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// New makes the store of an actor, for package actor: Ref.KV.
func New(at site.Site) Store { return Store{line{Reader{site: at}}} }

// Run makes a commit with do, for package actor: KV.Commit.
func Run(c Commit, do func(*hostkv.CommitInput) (hostkv.CommitOutput, error)) (Result, error) {
	return c.run(do)
}
