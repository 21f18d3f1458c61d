package strata

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
)

// branch returns the store of a branch. A command of a transaction is about that of the transaction.
func (c *call) branch(given *text) (kv.Store, error) {
	name, err := given.name("branch")
	switch {
	case err != nil:
	case c.lapsed != nil:
		err = errLapsed()
	case c.session != nil && given != nil && name != c.session.branch:
		err = invalid("branch", "is %.80q; the transaction is on %.80q", name, c.session.branch)
	case c.session != nil:
		return c.session.store, nil
	case name != defaultName:
		err = named("BranchNotFound", host.NotFound, "there is no branch %.80q", name)
	}
	return c.store, err
}
