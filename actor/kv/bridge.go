package kv

import "github.com/cairn-run/cairn/actor/internal/site"

// New makes the store of an actor. Package actor alone can call it: Ref.KV.
func New(at site.Site) Store { return Store{at} }
