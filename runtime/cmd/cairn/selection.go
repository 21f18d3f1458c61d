package main

import (
	"context"
	"slices"

	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

// A selection says which actors a verb is for, if they are not named one by one.
type selection struct {
	typ      string
	prefixes []string
	state    string
	where    []string
	keys     [][]string // the prefixes, read
}

// selectable are the states that --state takes.
var selectable = []host.State{host.Failed, host.Paused, host.Awake, host.Asleep}

func (s *selection) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.typ, "type", "", "all actors of this type")
	flags.StringArrayVar(&s.prefixes, "prefix", nil,
		"only keys that begin with these whole parts, PART/PART; may be given more than once")
	whereFlag(flags, &s.where)
	flags.StringVar(&s.state, "state", "", "only actors in this state: failed, paused, awake or asleep")
}

// given reports whether anything was selected.
func (s *selection) given() bool {
	return s.typ != "" || s.state != "" || len(s.prefixes) > 0 || len(s.where) > 0
}

// check reads the flags.
func (s *selection) check() error {
	if s.typ != "" {
		if err := checkType(s.typ); err != nil {
			return usageError{err}
		}
	}
	if s.state != "" && !slices.Contains(selectable, host.State(s.state)) {
		return usagef("--state %q: one of failed, paused, awake and asleep", s.state)
	}
	if len(s.prefixes) > 0 && s.typ == "" {
		return usagef("--prefix needs a --type")
	}
	s.keys = nil
	for _, p := range s.prefixes {
		parts, err := parsePrefix(p)
		if err != nil {
			return err
		}
		s.keys = append(s.keys, parts)
	}
	// A prefix within another adds nothing.
	s.keys = slices.DeleteFunc(slices.Clone(s.keys), func(key []string) bool {
		return slices.ContainsFunc(s.keys, func(other []string) bool {
			return len(other) < len(key) && slices.Equal(other, key[:len(other)])
		})
	})
	slices.SortFunc(s.keys, slices.Compare)
	s.keys = slices.CompactFunc(s.keys, slices.Equal)
	return nil
}

// conditions returns the conditions that the node looks at. It finds actors in a state without a
// look at the others, except sleeping ones.
func (s *selection) conditions() []string {
	if s.state == "" || s.state == string(host.Asleep) && len(s.where) == 0 {
		return s.where
	}
	return append([]string{"state=" + s.state}, s.where...)
}

// whereFlag adds --where.
func whereFlag(flags *pflag.FlagSet, where *[]string) {
	flags.StringArrayVar(where, "where", nil,
		"only actors that meet a condition, such as plan=pro, size>1MiB or updated<2026-01-31; may be given more than once")
}

// each calls f for every actor that is selected.
func (s *selection) each(ctx context.Context, c *cli, n *client.Client, f func(*host.Status) error) error {
	keys := s.keys
	if len(keys) == 0 {
		keys = [][]string{nil}
	}
	var without []host.Address
	for _, key := range keys {
		q := host.ListQuery{Type: s.typ, Prefix: key, Where: s.conditions(), Limit: maxPage}
		for {
			limited, cancel := c.requestContext(ctx)
			page, err := n.List(limited, q)
			cancel()
			if err != nil {
				return c.explain(ctx, n, host.Request{Address: host.Address{Type: s.typ}}, err)
			}
			for i := range page.Actors {
				a := &page.Actors[i]
				if s.state != "" && a.State != host.State(s.state) {
					continue
				}
				if err := f(a); err != nil {
					return err
				}
			}
			without = append(without, page.Uncertain...)
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
	}
	c.noteLeftOut(without)
	return nil
}
