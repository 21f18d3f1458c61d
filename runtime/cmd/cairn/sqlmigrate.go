package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A sqlMigration applies the migrations of actor types to the databases of many actors, or tries them.
type sqlMigration struct {
	*cli
	selection   selection
	dryRun, yes bool
	concurrency int

	printing                   sync.Mutex
	migrated, current, failing int64
}

func (c *cli) sqlMigrateCommand() *cobra.Command {
	m := &sqlMigration{cli: c}
	cmd := &cobra.Command{
		Use:   "migrate [TYPE/KEY...]...",
		Short: "Apply the migrations that actors' databases lack, or try them",
		Long: "migrate applies to an actor's database the migrations of its type that it lacks. An actor does that by itself when it\n" +
			"wakes; migrate is for doing it now, and with --dry-run for trying it: on a copy of each database, whether the actor\n" +
			"sleeps or not, and without waking or changing any. It prints a line for each actor that lacks migrations or whose\n" +
			"migration fails, and a summary, and exits with 1 if one failed.\n\n" +
			"Name the actors, or select them with --type, --prefix and --state. More than one need consent unless it is a dry\n" +
			"run: on a terminal it asks, elsewhere it needs --yes.\n\n" +
			"With --json each line is {\"type\",\"key\",\"applied\",\"migration\",\"error\"}; the last two only if it failed.",
		Example: "  cairn sql migrate --type tenant --dry-run\n" +
			"  cairn sql migrate --type tenant --prefix acme --yes\n" +
			"  cairn sql migrate tenant/acme",
		ValidArgsFunction: c.completeAddresses,
		RunE:              m.run,
	}
	flags := cmd.Flags()
	m.selection.flags(flags)
	flags.BoolVar(&m.dryRun, "dry-run", false, "try the migrations on copies and change nothing")
	flags.BoolVarP(&m.yes, "yes", "y", false, "do not ask")
	flags.IntVar(&m.concurrency, "concurrency", 8, "how many actors at a time")
	return cmd
}

// run migrates all that the command line says.
func (m *sqlMigration) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	b := bulk{cli: m.cli, selection: m.selection, concurrency: m.concurrency}
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
	if many && !m.dryRun && !m.yes && !terminal(m.stdin) {
		return usagef("the migration of many actors must be confirmed: with --yes, after a try with --dry-run")
	}
	n, err := m.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	if b.selection.given() {
		err := b.selection.each(ctx, m.cli, n, func(s *host.Status) error {
			actors = append(actors, host.Address{Type: s.Type, Key: s.Key})
			return nil
		})
		if err != nil {
			return err
		}
		if len(actors) == 0 {
			m.note("no such actors%s", m.otherType(ctx, n, b.selection.typ))
			return nil
		}
	}
	if !m.dryRun && !m.yes && len(actors) > 1 && !m.confirm(fmt.Sprintf("Migrate %s?", table.Plural(len(actors), "actor"))) {
		return errors.New("not confirmed: everything is left as it is")
	}
	return m.all(ctx, n, actors)
}

// all migrates actors, a few at a time.
func (m *sqlMigration) all(ctx context.Context, n *client.Client, actors []host.Address) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(m.concurrency, len(actors)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(len(actors)) {
					return
				}
				t := &target{m.cli, n, actors[i]}
				var out host.SQLMigrateOutput
				err := t.ask(ctx, host.SQLMigrate, &host.SQLMigrateInput{DryRun: m.dryRun}, &out, askOptions{existing: true})
				if err != nil && ctx.Err() != nil {
					return // it was interrupted
				}
				if err != nil {
					out.Error = err.Error()
				}
				m.report(t, &out)
			}
		})
	}
	wg.Wait()
	did := "migrated"
	if m.dryRun {
		did = "to be migrated"
	}
	if !m.json {
		fmt.Fprintf(m.stdout, "%s: %s %s, %s up to date, %s failed\n", table.Plural(len(actors), "actor"),
			table.Count(m.migrated), did, table.Count(m.current), table.Count(m.failing))
	}
	switch left := int64(len(actors)) - m.migrated - m.current - m.failing; {
	case left > 0:
		return fmt.Errorf("interrupted: %s not tried or not known to be done, %s failed", table.Count(left), table.Count(m.failing))
	case m.failing > 0:
		return fmt.Errorf("%s of %s failed", table.Count(m.failing), table.Plural(len(actors), "actor"))
	}
	return nil
}

// report says what became of one actor, unless there was nothing to do.
func (m *sqlMigration) report(t *target, out *host.SQLMigrateOutput) {
	m.printing.Lock()
	defer m.printing.Unlock()
	switch {
	case out.Error != "":
		m.failing++
	case len(out.Applied) == 0:
		m.current++
		return
	default:
		m.migrated++
	}
	if m.json {
		// What cannot be printed is done all the same.
		_ = m.printJSON(struct {
			Type      string   `json:"type"`
			Key       []string `json:"key"`
			Applied   []string `json:"applied"`
			Migration string   `json:"migration,omitempty"`
			Error     string   `json:"error,omitempty"`
		}{t.a.Type, append([]string{}, t.a.Key...), append([]string{}, out.Applied...), out.Migration, out.Error})
		return
	}
	var parts []string
	if len(out.Applied) > 0 {
		verb := "applied "
		if m.dryRun {
			verb = "would apply "
		}
		parts = append(parts, verb+strings.Join(out.Applied, ", "))
	}
	if out.Error != "" {
		if out.Migration != "" {
			out.Error = out.Migration + " fails: " + out.Error
		}
		parts = append(parts, out.Error)
	}
	fmt.Fprintf(m.stdout, "%s  %s\n", t, table.OneLine(strings.Join(parts, "; ")))
}
