package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/file"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
	"github.com/cairn-run/cairn/runtime/internal/kvfile"
	"github.com/cairn-run/cairn/runtime/internal/sqlitefile"
)

func (c *cli) kvExportCommand(flags []bind.Flag) *cobra.Command {
	var in kv.Selection
	var dir, branch string
	var force, sqlite bool
	cmd := &cobra.Command{
		Use:               "export TYPE/KEY... FILE",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeFile,
	}
	check, _ := bind.Flags(cmd.Flags(), flags, &in, c.input)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return usageError{err}
		}
		if err := selects(in, true); err != nil {
			return err
		}
		if sqlite && args[1] == "-" && terminal(c.stdout) {
			return usagef("standard output is a terminal: name a file, or send the output to one")
		}
		return c.onData(&dir, func(ctx context.Context, t *target, args []string) error {
			return t.exportEntries(ctx, branch, in, args[0], sqlite, force)
		})(cmd, args)
	}
	cmd.Flags().StringVar(&branch, "branch", "", branchFlag.Usage)
	cmd.Flags().BoolVar(&sqlite, "sqlite", false, "write a SQLite database, and not lines of JSON")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it is there")
	dataFlag(cmd, &dir)
	return cmd
}

// exportEntries writes entries of a branch to the file of that name.
func (t *target) exportEntries(ctx context.Context, branch string, of kv.Selection, name string,
	sqlite, force bool) error {
	limited, cancel := t.c.requestContext(ctx)
	_, err := t.node().Lookup(limited, t.a)
	cancel()
	if err != nil && host.CodeOf(err) != host.PermissionDenied { // a token may read entries, and not look at the actor
		return t.c.explain(ctx, t.node(), host.Request{Address: t.a}, err)
	}
	var entries int64
	write := func(w io.Writer) (err error) {
		if sqlite {
			entries, err = t.writeDatabase(ctx, branch, of, w)
		} else {
			entries, err = t.writeLines(ctx, branch, of, w)
		}
		if err == nil && branch == "" {
			t.noteBranches(ctx)
		}
		return err
	}
	if name == "-" {
		return write(t.c.stdout)
	}
	size, err := file.Write(name, force, write)
	switch {
	case errors.Is(err, os.ErrExist):
		return hintedError{fmt.Errorf("%s exists", name), []string{"to replace it, give --force"}}
	case err != nil:
		return err
	}
	return t.result(struct {
		File    string `json:"file"`
		Entries int64  `json:"entries"`
		Bytes   int64  `json:"bytes"`
	}{name, entries, size}, "exported %s of %s to %s: %s\n", table.Plural(entries, "entry"), t,
		table.OneLine(name), table.Size(size))
}

// maxNoted bounds the branches that a note names.
const maxNoted = 10

// noteBranches says which branches an export of the store itself leaves out.
func (t *target) noteBranches(ctx context.Context) {
	limited, cancel := t.c.requestContext(ctx)
	defer cancel()
	list, err := t.store().Branches(limited)
	switch {
	case host.CodeOf(err) == host.PermissionDenied:
		t.c.note("branches of the store are not in the export, and this token may not list them")
	case err != nil:
		t.c.note("branches of the store are not in the export, and listing them failed: %s", table.OneLine(err.Error()))
	case len(list) > 0:
		names := "the branch "
		if len(list) > 1 {
			names = "the branches "
		}
		for i, b := range list[:min(len(list), maxNoted)] {
			if i > 0 {
				names += ", "
			}
			names += table.OneLine(b.Name)
		}
		if more := len(list) - maxNoted; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		t.c.note("not in the export: %s; to export one: --branch NAME", names)
	}
}

// pages calls f with the entries of a selection of a branch, page by page.
func (t *target) pages(ctx context.Context, branch string, of kv.Selection, f func([]kv.Entry) error) error {
	list := kv.ListConfig{Selection: of, Limit: hostkv.MaxPage}
	for {
		limited, cancel := t.c.requestContext(ctx)
		page, err := t.store().Branch(branch).List(limited, list)
		cancel()
		if err != nil {
			return t.c.explain(ctx, t.node(), host.Request{Address: t.a}, err)
		}
		if err := f(page.Entries); err != nil {
			return err
		}
		if list.Cursor = page.Cursor; list.Cursor == "" {
			return nil
		}
	}
}

func (t *target) writeLines(ctx context.Context, branch string, of kv.Selection, w io.Writer) (n int64, err error) {
	var text []byte
	err = t.pages(ctx, branch, of, func(entries []kv.Entry) (err error) {
		text = text[:0]
		for i := range entries {
			if text, err = kvfile.AppendLine(text, &entries[i]); err != nil {
				return err
			}
		}
		n += int64(len(entries))
		_, err = w.Write(text)
		return err
	})
	return n, err
}

func (t *target) writeDatabase(ctx context.Context, branch string, of kv.Selection, w io.Writer) (n int64, err error) {
	database, err := sqlitefile.New()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	if err := database.Update(ctx, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, kvfile.Schema)
		return err
	}); err != nil {
		return 0, err
	}
	if err := t.pages(ctx, branch, of, func(entries []kv.Entry) error {
		n += int64(len(entries))
		return database.Update(ctx, func(db *sql.DB) error { return kvfile.Insert(ctx, db, entries) })
	}); err != nil {
		return n, err
	}
	return n, database.WriteFile(ctx, w)
}
