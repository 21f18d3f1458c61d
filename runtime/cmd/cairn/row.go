package main

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A row is a command that calls one built-in method of an actor and prints its output.
//
//  1. The arguments after the actor are members of the method's input, by their names in JSON; see
//     package bind. The input has no such member if the row's check reads the argument.
//  2. Flags are members of the input too. A flag limit of a row with pages bounds the items of all
//     pages.
//  3. A method that counts is called again as long as there is more to do; see ask.
//  4. A method that waits is called until it lists something, or the time of --wait is over.
//  5. A call creates the actor only if the method's row says so.
type row[In, Out any] struct {
	use    string
	method method.Typed[In, Out]
	flags  []bind.Flag
	// check, if set, completes the input, or refuses it before anything is sent. The input has no
	// documents yet.
	check func(l line, in *In) error
	// grave, if set, says what cannot be undone, "" for nothing. It needs consent.
	grave func(in *In, actor string) string

	// Either print prints the output, or list its items, page by page if next is set: next moves
	// the input to the next page and reports whether there is one. Without items the note none is
	// printed, which may name the ACTOR. If whole is set, all pages are one table, whose headings
	// are printed even without items.
	print func(t *target, in *In, out *Out) error
	list  func(p *page, out *Out) error
	next  func(in *In, out *Out) bool
	none  string
	whole bool

	// offline: with --data it reads the data of a stopped node.
	offline bool
}

// A line is a command line: the arguments after the actor, and whether a flag was given.
type line struct {
	*cli
	args  []string
	given func(flag string) bool
}

// maxPage is the largest page of a listing that a node gives.
const maxPage = 1000

// command makes the command of a row. It is compiled for each pair of types, so it only hides them
// from the code that does the work.
func (r row[In, Out]) command(c *cli) *cobra.Command {
	in, out := new(In), new(Out)
	u := untypedRow{use: r.use, method: r.method.Row, flags: r.flags, in: in, out: out,
		none: r.none, whole: r.whole, offline: r.offline}
	if check := r.check; check != nil {
		u.check = func(l line) error { return check(l, in) }
	}
	if grave := r.grave; grave != nil {
		u.grave = func(actor string) string { return grave(in, actor) }
	}
	if print := r.print; print != nil {
		u.print = func(t *target) error { return print(t, in, out) }
	}
	if list := r.list; list != nil {
		u.list = func(p *page) error { return list(p, out) }
	}
	if next := r.next; next != nil {
		u.next = func() bool { return next(in, out) }
	}
	return u.command(c)
}

// An untypedRow is a row whose input and output are at in and out, where its functions find them.
type untypedRow struct {
	use     string
	method  *method.Row
	flags   []bind.Flag
	in, out any

	check func(line) error
	grave func(actor string) string
	print func(*target) error
	list  func(*page) error
	next  func() bool

	none           string
	whole, offline bool
}

func (r untypedRow) command(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: r.use}
	arguments, least, most := bind.Arguments(r.use)
	switch {
	case most < 0:
		cmd.Args = cobra.MinimumNArgs(least)
	case least == most:
		cmd.Args = cobra.ExactArgs(least)
	default:
		cmd.Args = cobra.RangeArgs(least, most)
	}
	cmd.ValidArgsFunction = c.completeAddress
	if len(arguments) > 0 {
		if names := completions[strings.Trim(arguments[0], "[]")]; names != nil {
			cmd.ValidArgsFunction = c.completeNamed(names)
		}
	}
	limit, yes, dir := 0, false, ""
	if r.offline {
		dataFlag(cmd, &dir)
	}
	flags := slices.Clone(r.flags)
	if i := slices.IndexFunc(flags, func(f bind.Flag) bool { return f.Member == "limit" && r.next != nil }); i >= 0 {
		cmd.Flags().IntVar(&limit, "limit", flags[i].Initial, flags[i].Usage)
		flags = slices.Delete(flags, i, i+1)
	}
	check, readDocuments := bind.Flags(cmd.Flags(), flags, r.in, c.input)
	if r.grave != nil {
		cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usagef("--limit %d: at least 1, or 0 for all", limit)
		}
		if err := cmp.Or(check(), bind.SetArguments(r.in, arguments, args[1:])); err != nil {
			return usageError{err}
		}
		if _, err := parseAddress(args[0]); err != nil {
			return usageError{err}
		}
		if r.check != nil {
			if err := r.check(line{c, args[1:], cmd.Flags().Changed}); err != nil {
				return err
			}
		}
		// A document may be on standard input, which is not waited for if the command line is
		// wrong.
		if err := readDocuments(); err != nil {
			return err
		}
		if r.grave != nil {
			if what := r.grave(args[0]); what != "" {
				if err := c.consent(yes, what); err != nil {
					return err
				}
			}
		}
		return c.onData(&dir,
			func(ctx context.Context, t *target, _ []string) error { return r.run(ctx, t, limit) })(cmd, args)
	}
	return cmd
}

// run calls the method, for all pages or up to limit items unless it is 0, and prints what it
// returns.
func (r untypedRow) run(ctx context.Context, t *target, limit int) error {
	p := &page{target: t, table: t.c.table(), whole: r.whole}
	span := time.Duration(0)
	wait := bind.Member(r.in, "wait_ms")
	if r.method.Waits {
		span = time.Duration(wait.Int()) * time.Millisecond
	}
	for {
		if r.next != nil {
			size := maxPage
			if limit > 0 {
				size = min(maxPage, limit-p.printed)
			}
			of := bind.Member(r.in, "limit")
			of.SetInt(int64(size))
		}
		_, err := patiently(span, func(piece time.Duration) (_ bool, err error) {
			if r.method.Waits {
				wait.SetInt(piece.Milliseconds())
			}
			reflect.ValueOf(r.out).Elem().SetZero() // a member that an answer leaves out keeps no value of the last
			if err = t.ask(ctx, r.method, r.in, r.out, askOptions{wait: piece}); err == nil && r.list != nil {
				err = r.list(p)
			}
			return p.printed > 0, err
		})
		switch {
		case err != nil:
			return err
		case r.print != nil:
			return r.print(t)
		}
		more := r.next != nil && r.next()
		if !r.whole || !more {
			p.table.Flush()
		}
		if !more {
			break
		}
		if limit > 0 && p.printed >= limit {
			if !t.c.json {
				if last := bind.Member(r.in, "after"); last.IsValid() {
					t.c.note("there are more: --after %v or --limit 0 lists them", last)
				} else {
					t.c.note("there are more: --limit 0 lists them")
				}
			}
			break
		}
	}
	if p.printed == 0 && r.none != "" && !t.c.json {
		t.c.note("%s", strings.Replace(r.none, "ACTOR", t.String(), 1))
	}
	return nil
}

// A page is where the items of a listing are printed.
type page struct {
	*target
	table   table.Table
	printed int
	whole   bool
}

// listed returns what prints items: a JSON document each, or a line below headings, which commas
// separate.
func listed[Out, Item any](headings string, items func(*Out) []Item,
	cells func(*Item) []string) func(*page, *Out) error {
	return func(p *page, out *Out) error {
		all := items(out)
		p.begin(headings, len(all))
		for i := range all {
			if err := p.item(&all[i], func() []string { return cells(&all[i]) }); err != nil {
				return err
			}
		}
		return nil
	}
}

// begin prints the headings of a table before the first items, of which there are n.
func (p *page) begin(headings string, n int) {
	if p.printed == 0 && (p.whole || n > 0) && !p.c.json {
		p.table.Row(strings.Split(headings, ",")...)
	}
}

// item prints an item, which has these cells in a table.
func (p *page) item(item any, cells func() []string) error {
	p.printed++
	if p.c.json {
		return p.c.printJSON(item)
	}
	p.table.Row(cells()...)
	return nil
}

// result prints what a command did: its output as JSON, or a text for people.
func (t *target) result(out any, format string, args ...any) error {
	if t.c.json {
		return t.c.printJSON(out)
	}
	_, err := fmt.Fprintf(t.c.stdout, format, args...)
	return err
}
