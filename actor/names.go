package actor

import "github.com/cairn-run/cairn/actor/host"

// A label is a contract value and the name under which it is used, which differs from its own if it
// is declared as "*". Immutable.
type label struct {
	decl *declared
	// name is its name in the runtime; fault is why it cannot be used, or "".
	name  string
	fault string
}

// labelOf returns the label of a contract value under its own name.
func labelOf(d *declared) label {
	l := label{decl: d, name: d.name}
	if d.name == host.AnyName {
		l.fault = "stands for every name that is not declared; say which with Named"
	}
	return l
}

// named returns the label of a contract value under another name. A name that it does not stand
// for is a fault.
func (l label) named(name string) label {
	l.name, l.fault = name, nameFault(name)
	switch {
	case l.decl.name != host.AnyName && name != l.decl.name:
		l.fault = "has a name of its own; Named is for those that are declared as \"*\""
	case l.fault == "" && l.decl.name == host.AnyName:
		if other := l.decl.core.find(l.decl.kind.space(), name); other != nil {
			l.fault = "does not stand for " + other.String() + ", which is declared by itself"
		}
	}
	return l
}

// err returns an error if the contract value cannot be used under the name.
func (l label) err() error {
	if l.fault == "" {
		return nil
	}
	if l.name == l.decl.name {
		return Errorf(InvalidArgument, "%s %s", l.decl, l.fault)
	}
	return Errorf(InvalidArgument, "%s, used as %.80q: %s", l.decl, l.name, l.fault)
}

// inTurn returns an error if the contract value cannot be used by the turn or query that is
// running.
func (l label) inTurn(ctx Reader) error {
	if err := ctx.own(l.decl); err != nil {
		return err
	}
	return l.err()
}

// find returns the contract value declared under a name, or nil.
func (c *core) find(space kind, name string) *declared {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.declared {
		if d.name == name && d.kind.space() == space {
			return d
		}
	}
	return nil
}
