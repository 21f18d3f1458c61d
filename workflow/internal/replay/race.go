package replay

import (
	"cmp"
	"errors"
	"reflect"
	"slices"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A Case is one of the functions that Race runs. Make it with C.
type Case[T any] struct {
	name string
	run  func(ctx Context) (T, error)
}

// C makes a case of a race. The names of the cases of a race are distinct.
func C[T any](name string, fn func(ctx Context) (T, error)) Case[T] { return Case[T]{name, fn} }

// A RaceError is the error of a Race in which every case failed.
type RaceError struct {
	Name   string         // of the race
	Failed []*BranchError // in the order in which the function lists the cases
	first  *BranchError
}

func (e *RaceError) Error() string {
	return "workflow: nobody won " + failures(e.Name, e.Failed, e.first)
}

// Unwrap returns the errors of the cases.
func (e *RaceError) Unwrap() []error { return branchErrors(e.Failed) }

// errNoCases is the error of a Race without cases.
var errNoCases = errors.New("workflow: a race needs cases")

// errLost is the cause with which the losers of a race are canceled.
var errLost = errors.New("another case won the race")

// Race runs the cases concurrently until the first returns without an error.
func Race[T any](ctx Context, name string, cases ...Case[T]) (winner string, v T, err error) {
	s := ctx.scope()
	o, skip, err := s.open(KindRace, name)
	if err != nil {
		return "", v, err
	}
	if len(cases) == 0 {
		return "", v, o.refuse(errNoCases)
	}
	names := make([]string, len(cases))
	for i, c := range cases {
		names[i] = c.name
	}
	if err := s.sameBranches(o, names); err != nil {
		return "", v, o.refuse(err)
	}
	members := make([]*member, len(cases))
	for i, c := range cases {
		members[i] = &member{name: c.name, ordinal: uint32(i),
			loc: journal.ChildName(nil, o.loc, o.entry.Branches[i]), run: func(ctx Context) ([]byte, error) {
				ctx.scope().mustEncode(reflect.TypeFor[T]())
				v, err := c.run(ctx)
				if err != nil {
					return nil, err
				}
				return ctx.scope().encoded(v), nil
			}}
	}
	if err := s.race(o, skip, members); err != nil {
		return "", v, err
	}
	v, err = resultOf[T](s, o.entry.Output, nil)
	return o.entry.Winner, v, err
}

// race runs the members until one has won and the others are removed. The result of the race is
// then in o.entry.
//
// The resolution that ends the winner decides the race, so that running again decides it in the
// same way. There is no other record of the decision. Until the race's own end, the losers' entries
// stay, because they lead to the undo handlers.
func (s *scope) race(o *op, skip bool, members []*member) error {
	g := s.group(o)
	g.again = true
	if o.ended() {
		if o.entry.Winner == "" {
			g.recall(members)
		} else {
			members = slices.DeleteFunc(members, func(m *member) bool { return m.name != o.entry.Winner })
		}
	}
	var won *member
	switch {
	case skip:
		o.wait(s.owner)
	default:
		if !o.recorded {
			s.run.put(o)
		}
		g.ended = func(m *member) {
			if won != nil || m.o.entry.Status != Completed {
				return
			}
			won = m
			for _, other := range members {
				other.lost = other != m
			}
			g.cancel.cancel(errLost, true)
		}
		for _, m := range members {
			g.start(m)
		}
		g.wait()
		s.finishRace(o, won, members)
	}
	if o.entry.Winner != "" {
		return nil
	}
	e := &RaceError{Name: o.name}
	e.Failed, e.first, _ = failed(members)
	return e
}

// finishRace undoes the steps of the losers, and ends the race.
func (s *scope) finishRace(o *op, won *member, members []*member) {
	if won == nil || o.ended() {
		e := &RaceError{Name: o.name}
		e.Failed, e.first, _ = failed(members)
		o.end(nil, e, nil, members...)
		return
	}
	var lost []journal.Location
	for _, m := range members {
		if m != won {
			lost = append(lost, m.loc)
		}
	}
	s.undo(undoOptions{}, s.run.obligations.under(lost...))
	o.entry.Winner = won.name
	o.end(won.o.entry.Output, nil, func() error {
		var messages []received
		for _, loc := range lost {
			got, err := s.run.messagesIn(loc)
			if err != nil {
				return err
			}
			messages = append(messages, got...)
		}
		slices.SortStableFunc(messages, func(a, b received) int { return cmp.Compare(a.seq, b.seq) })
		if len(messages) > 0 {
			back := make([]Delivery, len(messages))
			for i, m := range messages {
				back[i] = m.message
			}
			if err := s.run.turn.Return(back); err != nil {
				return err
			}
			s.run.asked++ // others may wait for them
		}
		for _, loc := range lost {
			if err := s.run.keepAnswers(o, loc, nil); err != nil {
				return err
			}
			if err := s.run.drop(loc, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// A received is a message in the history, with the seq of the operation that received it.
type received struct {
	seq     uint64
	message Delivery
}
