package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

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

// A bulk is a verb that is done to the actors that the command line names or selects.
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
	cmd := &cobra.Command{
		Use:   v.name + " [TYPE/KEY...]...",
		Short: v.short,
		Long: v.long + "\n\n" +
			"Name the actors, or select them with --type, --prefix and --state. --dry-run only lists them. More than one needs\n" +
			"consent: on a terminal it asks, elsewhere it needs --yes. One that fails does not keep it from the others; in the\n" +
			"end it says how many are done, and exits with 1 if one failed.\n\n" +
			"With --json each line is {\"" + v.field + "\":true,\"type\":...,\"key\":[...]}, with false and an \"error\" if it failed.",
		Example:           v.example,
		ValidArgsFunction: c.completeAddresses,
		RunE:              b.run,
	}
	if v.grave {
		cmd.Long = cmd.Long[:len(v.long)] + " It asks also for a single actor." + cmd.Long[len(v.long):]
	}
	flags := cmd.Flags()
	b.selection.flags(flags)
	flags.BoolVar(&b.dryRun, "dry-run", false, "list the actors and do nothing")
	flags.BoolVarP(&b.yes, "yes", "y", false, "do not ask")
	flags.IntVar(&b.concurrency, "concurrency", 8, "how many actors at a time")
	return cmd
}

// run does the verb to all that the command line says.
func (b *bulk) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if err := b.check(args); err != nil {
		return err
	}
	var actors []host.Address
	for _, arg := range args {
		a, err := parseAddress(arg)
		if err != nil {
			return usageError{err}
		}
		actors = append(actors, a)
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
	if b.selection.given() {
		err := b.selection.each(ctx, b.cli, n, func(s *host.Status) error {
			actors = append(actors, host.Address{Type: s.Type, Key: s.Key})
			return nil
		})
		if err != nil {
			return err
		}
		if len(actors) == 0 {
			b.note("no such actors%s", b.otherType(ctx, n, b.selection.typ))
			return nil
		}
	}
	if err := b.consent(ctx, n, actors); err != nil {
		return err
	}
	if !many {
		return b.one(ctx, &target{b.cli, n, actors[0]})
	}
	return b.all(ctx, n, actors)
}

// check checks the command line.
func (b *bulk) check(args []string) error {
	switch {
	case len(args) > 0 && b.selection.given():
		return usagef("name actors, or select them with --type, --prefix and --state, but not both")
	case len(args) == 0 && !b.selection.given():
		return usagef("name an actor, or select many with --type, --prefix and --state")
	case b.concurrency < 1 || b.concurrency > maxConcurrency:
		return usagef("--concurrency %d: 1 to %d", b.concurrency, maxConcurrency)
	}
	return b.selection.check()
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
		question = fmt.Sprintf("%s%s %s?", string(b.name[0]-'a'+'A'), b.name[1:], table.Plural(len(actors), "actor"))
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

// all does the verb to many actors, a few at a time.
func (b *bulk) all(ctx context.Context, n *client.Client, actors []host.Address) error {
	var next, done, failed atomic.Int64
	var printing sync.Mutex
	stopProgress := b.progress(&done, &failed, len(actors))
	var wg sync.WaitGroup
	for range min(b.concurrency, len(actors)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(actors)) {
					return
				}
				t := &target{b.cli, n, actors[i]}
				did, err := b.do(ctx, t)
				if err != nil && ctx.Err() != nil {
					return // it was interrupted
				}
				if err == nil {
					done.Add(1)
				}
				printing.Lock()
				b.report(t, did, err, &failed)
				printing.Unlock()
			}
		})
	}
	wg.Wait()
	stopProgress()
	if !b.json {
		fmt.Fprintf(b.stdout, "%s %s of %s\n", b.done, table.Count(done.Load()), table.Plural(len(actors), "actor"))
	}
	switch left := int64(len(actors)) - done.Load() - failed.Load(); {
	case left > 0:
		return fmt.Errorf("interrupted: %s not tried or not known to be done, %s failed", table.Count(left), table.Count(failed.Load()))
	case failed.Load() > 0:
		return fmt.Errorf("%s of %s failed", table.Count(failed.Load()), table.Plural(len(actors), "actor"))
	}
	return nil
}

// report says what became of one actor of many.
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
