package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/many"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// maxConcurrency bounds --concurrency.
const maxConcurrency = 1024

// A bulk is a verb for the actors that the command line names or selects.
type bulk struct {
	*cli
	verb
	selection   selection
	dryRun, yes bool
	concurrency int
}

// verbCommand makes the command of a verb.
func (c *cli) verbCommand(v verb) *cobra.Command {
	b := &bulk{cli: c, verb: v}
	cmd := &cobra.Command{Use: v.name + " [TYPE/KEY...]...", ValidArgsFunction: c.completeAddresses, RunE: b.run}
	b.flags(cmd.Flags(), "list the actors and do nothing")
	return cmd
}

// flags adds the flags of what is done to many actors.
func (b *bulk) flags(flags *pflag.FlagSet, dryRun string) {
	b.selection.flags(flags)
	flags.BoolVar(&b.dryRun, "dry-run", false, dryRun)
	flags.BoolVarP(&b.yes, "yes", "y", false, "do not ask")
	flags.IntVar(&b.concurrency, "concurrency", 8, "how many actors at a time")
}

// run does the verb to all that the command line says.
func (b *bulk) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	actors, err := b.check(args)
	if err != nil {
		return err
	}
	several := b.selection.given() || len(actors) > 1
	if !b.dryRun && !b.yes && !terminal(b.stdin) {
		switch {
		case several:
			return usagef("%s of many actors must be confirmed: with --yes, after a look with --dry-run", b.name)
		case b.grave:
			return usagef("destroying %s cannot be undone: confirm with --yes", args[0])
		}
	}
	n, err := b.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	if b.dryRun {
		return b.list(ctx, n, actors)
	}
	if actors, err = b.selected(ctx, n, actors); err != nil || len(actors) == 0 {
		return err
	}
	if err := b.consent(ctx, n, actors); err != nil {
		return err
	}
	if !several {
		return b.one(ctx, &target{c: b.cli, n: n, a: actors[0]})
	}
	return b.all(ctx, n, actors)
}

// check checks the command line and returns the actors that it names.
func (b *bulk) check(args []string) ([]host.Address, error) {
	switch {
	case len(args) > 0 && b.selection.given():
		return nil, usagef("name actors, or select them with --type, --prefix, --where and --state, but not both")
	case len(args) == 0 && !b.selection.given():
		return nil, usagef("name an actor, or select many with --type, --prefix, --where and --state")
	case b.concurrency < 1 || b.concurrency > maxConcurrency:
		return nil, usagef("--concurrency %d: 1 to %d", b.concurrency, maxConcurrency)
	}
	if err := b.selection.check(); err != nil {
		return nil, err
	}
	var actors []host.Address
	for _, arg := range args {
		a, err := parseAddress(arg)
		if err != nil {
			return nil, usageError{err}
		}
		actors = append(actors, a)
	}
	return actors, nil
}

// selected returns the named actors, or finds the selected ones. It prints a note if there are
// none.
func (b *bulk) selected(ctx context.Context, n *client.Client,
	named []host.Address) (actors []host.Address, err error) {
	if !b.selection.given() {
		return named, nil
	}
	err = b.selection.each(ctx, b.cli, n, func(s *host.Status) error {
		actors = append(actors, host.Address{Type: s.Type, Key: s.Key})
		return nil
	})
	if err == nil && len(actors) == 0 {
		b.note("no such actors%s", b.otherType(ctx, n, b.selection.typ))
	}
	return actors, err
}

// list prints the actors that the verb would change.
func (b *bulk) list(ctx context.Context, n *client.Client, actors []host.Address) error {
	t := b.table()
	defer t.Flush()
	listed := 0
	show := func(s *host.Status) error {
		listed++
		return b.printListed(t, s, listed == 1)
	}
	for _, a := range actors {
		limited, cancel := b.requestContext(ctx)
		s, err := n.Lookup(limited, a)
		cancel()
		if err != nil {
			return b.explain(ctx, n, host.Request{Address: a}, err)
		}
		if err := show(&s); err != nil {
			return err
		}
	}
	if b.selection.given() {
		if err := b.selection.each(ctx, b.cli, n, show); err != nil {
			return err
		}
	}
	t.Flush()
	if !b.json {
		b.note("%s; nothing is done, because of --dry-run", table.Plural(listed, "actor"))
	}
	return nil
}

// consent asks for consent, if the verb needs it.
func (b *bulk) consent(ctx context.Context, n *client.Client, actors []host.Address) error {
	question := ""
	switch {
	case b.yes:
		return nil
	case len(actors) > 1:
		question = b.question(len(actors), "actor")
	case b.grave:
		limited, cancel := b.requestContext(ctx)
		s, err := n.Lookup(limited, actors[0])
		cancel()
		if err != nil {
			return b.explain(ctx, n, host.Request{Address: actors[0]}, err)
		}
		question = fmt.Sprintf("Destroy %s (%s, %s)?", formatAddress(s.Type, s.Key),
			table.Plural(s.Keys, "key"), table.Size(s.Bytes))
	default:
		return nil
	}
	if !b.confirm(question) {
		return errors.New("not confirmed: everything is left as it is")
	}
	return nil
}

// one does the verb to one actor, whose error is the command's.
func (b *bulk) one(ctx context.Context, t *target) error {
	did, err := b.do(ctx, t)
	if err != nil {
		return err
	}
	if b.json {
		return b.printDone(t.a, did, nil)
	}
	if !did && b.undone != "" {
		_, err = fmt.Fprintf(b.stdout, "%s %s\n", t, b.undone)
	} else {
		_, err = fmt.Fprintf(b.stdout, "%s %s\n", b.done, t)
	}
	return err
}

// question asks whether the verb may be done to many.
func (b *bulk) question(n int, noun string) string {
	return fmt.Sprintf("%s%s %s?", strings.ToUpper(b.name[:1]), b.name[1:], table.Plural(n, noun))
}

// all does the verb to many actors, a few at a time.
func (b *bulk) all(ctx context.Context, n *client.Client, actors []host.Address) error {
	tally := many.Tally{Total: len(actors), Did: b.done}
	if !b.json {
		tally.Notes, tally.Terminal = b.stderr, terminal(b.stderr)
	}
	var printing sync.Mutex
	stopProgress := tally.Progress()
	many.Each(ctx, b.concurrency, actors, func(a host.Address) {
		t := &target{c: b.cli, n: n, a: a}
		did, err := b.do(ctx, t)
		if err != nil && ctx.Err() != nil {
			return // it was interrupted
		}
		tally.Add(t, err)
		if b.json {
			printing.Lock()
			defer printing.Unlock()
			_ = b.printDone(a, did && err == nil, err) // it is done even if it cannot be printed
		}
	})
	stopProgress()
	if !b.json {
		fmt.Fprintln(b.stdout, &tally)
	}
	return tally.Err()
}

// printDone prints the JSON line of an actor.
func (b *bulk) printDone(a host.Address, did bool, err error) error {
	line := struct {
		Type  string      `json:"type"`
		Key   []string    `json:"key"`
		Error *host.Error `json:"error,omitempty"`
	}{Type: a.Type, Key: append([]string{}, a.Key...)}
	if err != nil && !errors.As(err, &line.Error) {
		line.Error = host.Errorf("local", "%v", err)
	}
	rest, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.stdout, "{%q:%t,%s\n", b.field, did, rest[1:])
	return err
}
