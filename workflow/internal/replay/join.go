package replay

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A Branch is one of the functions that Join and JoinFast run. Make it with B.
type Branch struct {
	name string
	run  func(ctx Context) ([]byte, error)
	set  func(s *scope, output []byte)
}

// B makes a branch.
func B[T any](name string, out *T, fn func(ctx Context) (T, error)) Branch {
	return Branch{
		name: name,
		run: func(ctx Context) ([]byte, error) {
			ctx.scope().mustEncode(reflect.TypeFor[T]())
			v, err := fn(ctx)
			if err != nil {
				return nil, err
			}
			return ctx.scope().encoded(v), nil
		},
		set: func(s *scope, output []byte) {
			if out != nil {
				*out, _ = resultOf[T](s, output, nil)
			}
		},
	}
}

// A BranchError is the error of a failed branch.
type BranchError struct {
	// Branch is its name; for an element of a foreach its index.
	Branch string
	Err    error
}

func (e *BranchError) Error() string { return "branch " + e.Branch + ": " + e.Err.Error() }

// Unwrap returns the branch's error.
func (e *BranchError) Unwrap() error { return e.Err }

// A JoinError is the error of Join, JoinFast and ForEach: some branches failed.
type JoinError struct {
	Name   string         // of the join
	Failed []*BranchError // in the order in which the function lists the branches
	first  *BranchError
	fast   bool
}

func (e *JoinError) Error() string { return "workflow: " + failures(e.Name, e.Failed, e.first) }

// First returns the failure that came first.
func (e *JoinError) First() *BranchError { return e.first }

// Unwrap returns the errors of the branches. For JoinFast it returns only the first, which canceled
// the others.
func (e *JoinError) Unwrap() []error {
	if e.fast {
		return []error{e.first}
	}
	return branchErrors(e.Failed)
}

func branchErrors(failed []*BranchError) []error {
	errs := make([]error, len(failed))
	for i, b := range failed {
		errs[i] = b
	}
	return errs
}

func failures(name string, failed []*BranchError, first *BranchError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v", name, first)
	if n := len(failed) - 1; n > 0 {
		fmt.Fprintf(&b, " (and %d more)", n)
	}
	return b.String()
}

// Join runs the branches concurrently and waits until all have ended.
func Join(ctx Context, name string, branches ...Branch) error {
	return join(ctx, name, branches, false)
}

// JoinFast is Join, but the first branch that fails cancels the others.
func JoinFast(ctx Context, name string, branches ...Branch) error {
	return join(ctx, name, branches, true)
}

func join(ctx Context, name string, branches []Branch, fast bool) error {
	s := ctx.scope()
	r := s.run
	o, skip, err := s.open(KindJoin, name)
	if err != nil {
		return err
	}
	names := make([]string, len(branches))
	for i, b := range branches {
		names[i] = b.name
	}
	if err := s.sameBranches(o, names); err != nil {
		return o.refuse(err)
	}
	g := s.group(o)
	members := make([]*member, len(branches))
	for i, b := range branches {
		members[i] = &member{name: b.name, ordinal: uint32(i),
			loc: journal.ChildName(nil, o.loc, o.entry.Branches[i]), run: b.run}
	}
	if skip {
		g.recall(members)
		o.wait(s.owner)
	} else {
		if !o.recorded {
			r.put(o)
		}
		g.again = true
		g.ended = func(m *member) {
			if fast && m.o.entry.Status != Completed && g.cancel.err() == nil {
				g.cancel.cancel(fmt.Errorf("branch %q of %q failed", m.name, name), false)
			}
		}
		for _, m := range members {
			g.start(m)
		}
		g.wait()
		o.end(nil, joinError(name, members, fast), nil, members...)
	}
	for i, b := range branches {
		if m := members[i]; m.o.entry.Status == Completed {
			b.set(s, m.o.entry.Output)
		}
	}
	return joinError(name, members, fast)
}

// joinError returns the error of a join whose members have ended: a *JoinError, or nil.
func joinError(name string, members []*member, fast bool) error {
	e := &JoinError{Name: name, fast: fast}
	seq := uint64(0)
	e.Failed, e.first, seq = failed(members)
	if seq == 0 {
		return nil
	}
	return e
}

// failed returns the failed branches, the first of them, and its seq.
func failed(members []*member) (all []*BranchError, first *BranchError, seq uint64) {
	for _, m := range members {
		if m.o == nil || m.lost || m.o.entry.Status == Completed {
			continue
		}
		b := &BranchError{m.name, m.g.s.run.errorOf(m.o.entry.Failure)}
		all = append(all, b)
		if first == nil || m.o.entry.Seq < seq {
			first, seq = b, m.o.entry.Seq
		}
	}
	return all, first, seq
}
