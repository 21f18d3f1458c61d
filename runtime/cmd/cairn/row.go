package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A row is a command that calls one built-in method of an actor and prints its output.
//
//  1. The arguments after the actor are members of the method's input, by their names in JSON: QUEUE is queue, and [ID...]
//     is the list ids. The input has no such member if the row's check reads the argument.
//  2. Flags are members of the input too, and have their types.
//  3. A method that counts is called again as long as there is more to do; see ask.
//  4. A method that waits is asked until it lists something, or for as long as --wait says.
//  5. A call creates the actor only if the method's row says so.
type row[In, Out any] struct {
	use    string
	method method.Typed[In, Out]
	flags  []option
	// check, if set, completes the input, or refuses it before anything is sent. The input has no documents yet.
	check func(l line, in *In) error
	// grave, if set, says what cannot be undone, "" for nothing. It needs consent.
	grave func(in *In, actor string) string

	// Either print prints the output, or list its items, page by page if next is set: next moves the input to the next page
	// and reports whether there is one. Without items the note none is printed, which may name the ACTOR. If whole is set,
	// all pages are one table, whose headings are printed even without items.
	print func(t *target, in *In, out *Out) error
	list  func(p *page, out *Out) error
	next  func(in *In, out *Out) bool
	none  string
	whole bool
}

// A line is a command line: the arguments after the actor, and whether a flag was given.
type line struct {
	*cli
	args  []string
	given func(flag string) bool
}

// An option is a member of an input that is a flag: dedup_id is --dedup-id, and wait_ms is --wait with a duration. A flag
// limit of a row with pages bounds the items of all pages.
type option struct {
	member, usage string
	initial       int
	// document: the value must be JSON if the flag is given, also if it is "". Otherwise "" is no value.
	document bool
}

// maxPage is the largest page of a listing that a node gives.
const maxPage = 1000

// command makes the command of a row.
func (r row[In, Out]) command(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: r.use}
	in := new(In)
	arguments, least, most := argumentsOf(r.use)
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
	limit, yes := 0, false
	flags := slices.Clone(r.flags)
	if i := slices.IndexFunc(flags, func(f option) bool { return f.member == "limit" && r.next != nil }); i >= 0 {
		cmd.Flags().IntVar(&limit, "limit", flags[i].initial, flags[i].usage)
		flags = slices.Delete(flags, i, i+1)
	}
	var plain, documents []option
	for _, f := range flags {
		if to, _ := member(in, f.member); to.Type() == reflect.TypeFor[host.Raw]() {
			documents = append(documents, f)
		} else {
			plain = append(plain, f)
		}
	}
	read, readDocuments := bindAll(c, cmd.Flags(), plain, in), bindAll(c, cmd.Flags(), documents, in)
	if r.grave != nil {
		cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usagef("--limit %d: at least 1, or 0 for all", limit)
		}
		if err := read(); err != nil {
			return err
		}
		if err := setArguments(in, arguments, args[1:]); err != nil {
			return err
		}
		if _, err := parseAddress(args[0]); err != nil {
			return usageError{err}
		}
		if r.check != nil {
			if err := r.check(line{c, args[1:], cmd.Flags().Changed}, in); err != nil {
				return err
			}
		}
		// A document may be on standard input, which is not waited for if the command line is wrong.
		if err := readDocuments(); err != nil {
			return err
		}
		if r.grave != nil {
			if what := r.grave(in, args[0]); what != "" {
				if err := c.consent(yes, what); err != nil {
					return err
				}
			}
		}
		return c.on(func(ctx context.Context, t *target, _ []string) error { return r.run(ctx, t, in, limit) })(cmd, args)
	}
	return cmd
}

// run calls the method, for all pages or up to limit items unless it is 0, and prints what it returns.
func (r row[In, Out]) run(ctx context.Context, t *target, in *In, limit int) error {
	p := &page{target: t, table: t.c.table(), whole: r.whole}
	span := time.Duration(0)
	wait, _ := member(in, "wait_ms")
	if r.method.Waits {
		span = time.Duration(wait.Int()) * time.Millisecond
	}
	for {
		if r.next != nil {
			size := maxPage
			if limit > 0 {
				size = min(maxPage, limit-p.printed)
			}
			of, _ := member(in, "limit")
			of.SetInt(int64(size))
		}
		var out Out
		_, err := patiently(span, func(piece time.Duration) (_ bool, err error) {
			if r.method.Waits {
				wait.SetInt(piece.Milliseconds())
			}
			if out, err = ask(ctx, t, r.method, in, askOptions{wait: piece}); err == nil && r.list != nil {
				err = r.list(p, &out)
			}
			return p.printed > 0, err
		})
		switch {
		case err != nil:
			return err
		case r.print != nil:
			return r.print(t, in, &out)
		}
		more := r.next != nil && r.next(in, &out)
		if !r.whole || !more {
			p.table.Flush()
		}
		if !more {
			break
		}
		if limit > 0 && p.printed >= limit {
			if !t.c.json {
				last, _ := member(in, "after")
				t.c.note("there are more: --after %v or --limit 0 lists them", last)
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

// listed returns what prints items: a JSON document each, or a line below headings, which commas separate.
func listed[Out, Item any](headings string, items func(*Out) []Item, cells func(*Item) []string) func(*page, *Out) error {
	return func(p *page, out *Out) error {
		all := items(out)
		if p.printed == 0 && (p.whole || len(all) > 0) && !p.c.json {
			p.table.Row(strings.Split(headings, ",")...)
		}
		for i := range all {
			p.printed++
			if !p.c.json {
				p.table.Row(cells(&all[i])...)
			} else if err := p.c.printJSON(&all[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// result prints what a command did: its output as JSON, or a text for people.
func (t *target) result(out any, format string, args ...any) error {
	if t.c.json {
		return t.c.printJSON(out)
	}
	_, err := fmt.Fprintf(t.c.stdout, format, args...)
	return err
}

// argumentsOf returns the arguments after the actor that a use line has, and how many arguments there are in all: at least,
// and at most, or -1 for any number.
func argumentsOf(use string) (arguments []string, least, most int) {
	words := strings.Fields(use)[1:]
	for i, word := range words {
		if strings.HasPrefix(word, "-") {
			break
		}
		if i > 0 {
			arguments = append(arguments, word)
		}
		if most++; word[0] != '[' {
			least = most
		}
	}
	if n := len(arguments); n > 0 && strings.Contains(arguments[n-1], "...") {
		most = -1
	}
	return arguments, least, most
}

// setArguments sets the members of an input that arguments are.
func setArguments(in any, arguments, args []string) error {
	for i, argument := range arguments {
		name := strings.ToLower(strings.Trim(argument, "[]"))
		name, many := strings.CutSuffix(name, "...")
		if many {
			name += "s"
		}
		to, _ := member(in, name)
		if !to.IsValid() || i >= len(args) {
			continue
		}
		switch p := to.Addr().Interface().(type) {
		case *string:
			*p = args[i]
		case *[]string:
			*p = args[i:]
		case *[]uint64:
			var err error
			if *p, err = messageIDs(args[i:]); err != nil {
				return err
			}
		default:
			panic("the argument " + argument + " has no type of an argument")
		}
	}
	return nil
}

// messageIDs reads ids of messages.
func messageIDs(args []string) ([]uint64, error) {
	var ids []uint64
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 64)
		if err != nil || id == 0 {
			return nil, usagef("%q is not the id of a message, which is a number", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// member returns the member of a struct that has a name in JSON, and its tag; the zero Value if there is none.
func member(in any, name string) (reflect.Value, reflect.StructTag) {
	v := reflect.ValueOf(in).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if n, _, _ := strings.Cut(tag.Get("json"), ","); n == name {
			return v.Field(i), tag
		}
	}
	return reflect.Value{}, ""
}

// bindAll adds flags that are members of in. The function that it returns checks their values and sets the members.
func bindAll(c *cli, flags *pflag.FlagSet, all []option, in any) func() error {
	var read []func() error
	for _, f := range all {
		read = append(read, f.bind(c, flags, in))
	}
	return func() error {
		for _, f := range read {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
}

// bind adds a flag. The function that it returns checks the flag's value and sets the member.
func (f option) bind(c *cli, flags *pflag.FlagSet, in any) func() error {
	to, tag := member(in, f.member)
	name, isSpan := strings.CutSuffix(f.member, "_ms")
	name = strings.ReplaceAll(name, "_", "-")
	if isSpan {
		d := flags.Duration(name, 0, f.usage)
		return func() error {
			if err := duration(name, *d); err != nil {
				return err
			}
			if ms := d.Milliseconds(); to.Kind() != reflect.Pointer {
				to.SetInt(ms)
			} else if flags.Changed(name) {
				to.Set(reflect.ValueOf(&ms))
			}
			return nil
		}
	}
	switch p := to.Addr().Interface().(type) {
	case *bool:
		flags.BoolVar(p, name, false, f.usage)
	case *uint64:
		flags.Uint64Var(p, name, 0, f.usage)
	case *int:
		flags.IntVar(p, name, f.initial, f.usage)
		return func() error {
			var least, most int
			if n, _ := fmt.Sscanf(tag.Get("range"), "%d,%d", &least, &most); n == 2 && (*p < least || *p > most) {
				return usagef("--%s %d: %d to %d", name, *p, least, most)
			}
			return nil
		}
	case **time.Time:
		s := flags.String(name, "", f.usage)
		return func() error {
			at, err := time.Parse(time.RFC3339, *s)
			switch {
			case *s == "":
			case err != nil:
				return usagef("--%s %q: a time such as 2027-01-01T00:00:00Z is needed", name, *s)
			default:
				*p = &at
			}
			return nil
		}
	case *host.Raw:
		s := flags.String(name, "", f.usage)
		return func() (err error) {
			if *s != "" || f.document && flags.Changed(name) {
				*p, err = c.input(*s)
			}
			return err
		}
	default:
		s := flags.String(name, "", f.usage)
		return func() error {
			to.SetString(*s)
			return nil
		}
	}
	return func() error { return nil }
}
