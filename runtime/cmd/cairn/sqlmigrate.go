package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/many"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A sqlMigration applies the migrations of actor types to the databases of many actors, or tries
// them.
type sqlMigration struct {
	bulk
	printing                   sync.Mutex
	migrated, current, failing int64
}

func (c *cli) sqlMigrateCommand() *cobra.Command {
	m := &sqlMigration{bulk: bulk{cli: c, verb: verb{name: "migrate"}}}
	cmd := &cobra.Command{
		Use:               "migrate [TYPE/KEY...]...",
		ValidArgsFunction: c.completeAddresses,
		RunE:              m.run,
	}
	m.flags(cmd.Flags(), "try the migrations on copies and change nothing")
	return cmd
}

// run migrates all that the command line says.
func (m *sqlMigration) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	actors, err := m.check(args)
	if err != nil {
		return err
	}
	several := m.selection.given() || len(actors) > 1
	if several && !m.dryRun && !m.yes && !terminal(m.stdin) {
		return usagef("the migration of many actors must be confirmed: with --yes, after a try with --dry-run")
	}
	n, err := m.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	if actors, err = m.selected(ctx, n, actors); err != nil || len(actors) == 0 {
		return err
	}
	if !m.dryRun && !m.yes && len(actors) > 1 && !m.confirm(m.question(len(actors), "actor")) {
		return errors.New("not confirmed: everything is left as it is")
	}
	many.Each(ctx, m.concurrency, actors, func(a host.Address) {
		t := &target{c: m.cli, n: n, a: a}
		out, err := ask(ctx, t, method.SQLMigrate, &host.SQLMigrateInput{DryRun: m.dryRun}, askOptions{})
		if err != nil && ctx.Err() != nil {
			return // it was interrupted
		}
		if err != nil {
			out.Error = err.Error()
		}
		m.report(t, &out)
	})
	did := "migrated"
	if m.dryRun {
		did = "to be migrated"
	}
	if !m.json {
		fmt.Fprintf(m.stdout, "%s: %s %s, %s up to date, %s failed\n", table.Plural(len(actors), "actor"),
			table.Count(m.migrated), did, table.Count(m.current), table.Count(m.failing))
	}
	return many.Outcome(len(actors), m.migrated+m.current, m.failing)
}

// report prints the result for one actor, unless there was nothing to do.
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
