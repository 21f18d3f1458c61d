package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

const (
	// maxConcurrency bounds --concurrency.
	maxConcurrency = 1024
	// maxReported is how many failures are shown one by one. With --json all are.
	maxReported = 20
	// progressPeriod is how often progress is shown on a terminal.
	progressPeriod = 250 * time.Millisecond
)

// A bulk is something that is done to the actors that the command line names or selects.
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
	many := b.selection.given() || len(actors) > 1
	if !b.dryRun && !b.yes && !terminal(b.stdin) {
		switch {
		case many:
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
	if !many {
		return b.one(ctx, &target{b.cli, n, actors[0]})
	}
	return b.all(ctx, n, actors)
}

// check checks the command line and returns the actors that it names.
func (b *bulk) check(args []string) ([]host.Address, error) {
	switch {
	case len(args) > 0 && b.selection.given():
		return nil, usagef("name actors, or select them with --type, --prefix and --state, but not both")
	case len(args) == 0 && !b.selection.given():
		return nil, usagef("name an actor, or select many with --type, --prefix and --state")
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

// selected returns the named actors, or finds the selected ones. It prints a note if there are none.
func (b *bulk) selected(ctx context.Context, n *client.Client, named []host.Address) (actors []host.Address, err error) {
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

// list prints what the verb would be done to.
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

// consent asks, if it has to.
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
		question = fmt.Sprintf("Destroy %s (%s, %s)?", formatAddress(s.Type, s.Key), table.Plural(s.Keys, "key"), table.Size(s.Bytes))
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

// each calls f for every actor, a few at a time, until ctx ends.
func (b *bulk) each(ctx context.Context, n *client.Client, actors []host.Address, f func(*target)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(b.concurrency, len(actors)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(actors)) {
					return
				}
				f(&target{b.cli, n, actors[i]})
			}
		})
	}
	wg.Wait()
}

// outcome is the error of a command that did something to done of total actors and failed with some.
func outcome(total int, done, failed int64) error {
	switch left := int64(total) - done - failed; {
	case left > 0:
		return fmt.Errorf("interrupted: %s not tried or not known to be done, %s failed", table.Count(left), table.Count(failed))
	case failed > 0:
		return fmt.Errorf("%s of %s failed", table.Count(failed), table.Plural(total, "actor"))
	}
	return nil
}

// all does the verb to many actors, a few at a time.
func (b *bulk) all(ctx context.Context, n *client.Client, actors []host.Address) error {
	var done, failed atomic.Int64
	var printing sync.Mutex
	stopProgress := b.progress(&done, &failed, len(actors))
	b.each(ctx, n, actors, func(t *target) {
		did, err := b.do(ctx, t)
		if err != nil && ctx.Err() != nil {
			return // it was interrupted
		}
		if err == nil {
			done.Add(1)
		}
		printing.Lock()
		defer printing.Unlock()
		b.report(t, did, err, &failed)
	})
	stopProgress()
	if !b.json {
		fmt.Fprintf(b.stdout, "%s %s of %s\n", b.done, table.Count(done.Load()), table.Plural(len(actors), "actor"))
	}
	return outcome(len(actors), done.Load(), failed.Load())
}

// report prints the result for one actor of many.
func (b *bulk) report(t *target, did bool, err error, failed *atomic.Int64) {
	nth := int64(0)
	if err != nil {
		nth = failed.Add(1)
	}
	switch {
	case b.json:
		_ = b.printDone(t.a, did && err == nil, err) // what cannot be printed is done all the same
	case nth > 0 && nth <= maxReported:
		b.note("%s%s: %s", b.clearLine(), t, table.OneLine(err.Error()))
	case nth == maxReported+1:
		b.note("%smore failures are counted, not shown; --json shows them all", b.clearLine())
	}
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

// progress shows on a terminal how far it is. The result ends it.
func (b *bulk) progress(done, failed *atomic.Int64, total int) (stop func()) {
	if b.json || !terminal(b.stderr) {
		return func() {}
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressPeriod)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(b.stderr, "%s%s %s of %s, %s failed", b.clearLine(), b.done, table.Count(done.Load()), table.Count(total), table.Count(failed.Load()))
			case <-ended:
				fmt.Fprint(b.stderr, b.clearLine())
				return
			}
		}
	})
	return func() {
		close(ended)
		wg.Wait()
	}
}

// clearLine is what removes the progress from the line that it stands on.
func (b *bulk) clearLine() string {
	if !terminal(b.stderr) {
		return ""
	}
	return "\r\x1b[K"
}
