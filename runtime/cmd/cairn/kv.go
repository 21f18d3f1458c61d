package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) kvCommand() *cobra.Command {
	selection := []bind.Flag{
		{Member: "prefix", Usage: "the entries whose keys begin with these parts"},
		{Member: "start", Usage: "the entries from this key on"},
		{Member: "end", Usage: "the entries before this key"},
	}
	return group("kv",
		c.kvGetCommand(), c.kvPutCommand(), c.kvBranchCommand(selection),
		row[hostkv.ListInput, hostkv.ListOutput]{
			use:    "list TYPE/KEY...",
			method: method.KVList, offline: true, none: "no entries",
			flags: append(slices.Concat(selection, whenFlags),
				bind.Flag{Member: "where", Usage: "a filter that the entries meet: JSON, - or @FILE", Document: true},
				bind.Flag{Member: "reverse", Usage: "from the last key to the first"},
				bind.Flag{Member: "keys_only", Name: "keys", Usage: "without the values"},
				bind.Flag{Member: "limit", Usage: "how many entries to print; 0 prints all"}),
			check: func(_ line, in *hostkv.ListInput) error { return selects(in.Selection, true) },
			next: func(in *hostkv.ListInput, out *hostkv.ListOutput) bool {
				in.Cursor = out.Cursor
				return in.Cursor != ""
			},
			list: listEntries,
		}.command(c),
		row[hostkv.CountInput, hostkv.CountOutput]{
			use:    "count TYPE/KEY...",
			method: method.KVCount, flags: slices.Concat(selection, whenFlags), offline: true,
			check: func(_ line, in *hostkv.CountInput) error { return selects(in.Selection, true) },
			print: func(t *target, _ *hostkv.CountInput, out *hostkv.CountOutput) error {
				return t.result(out, "%d\n", out.Count)
			},
		}.command(c),
		c.kvDeleteCommand(selection), c.kvCommitCommand(), c.kvExportCommand(selection), c.kvImportCommand(), c.kvIndexCommand(), c.kvSearchCommand(), c.kvRenderCommand(),
		c.kvScopeCommand(), c.kvHistoryCommand(), c.kvWatchCommand())
}

var listWhole = listed("KEY,VERSION,UPDATED,EXPIRES,ENCODING,VALUE",
	func(o *hostkv.ListOutput) []hostkv.Entry { return o.Entries },
	func(e *hostkv.Entry) []string {
		return []string{
			formatKey(e.Key), strconv.FormatUint(e.Version,
				10), table.Clock(e.Updated), clockOf(e.Expires), cmp.Or(e.Encoding, "json"), brief(e.Value),
		}
	})

// listEntries prints a page of entries. For people, entries without values are their keys, one a
// line.
func listEntries(p *page, out *hostkv.ListOutput) error {
	if p.c.json || len(out.Entries) == 0 || out.Entries[0].Value != nil {
		return listWhole(p, out)
	}
	for i := range out.Entries {
		p.printed++
		if _, err := fmt.Fprintln(p.c.stdout, formatKey(out.Entries[i].Key)); err != nil {
			return err
		}
	}
	return nil
}

// formatKey writes a key as bind.Key reads it.
func formatKey(key kv.Key) string {
	path, err := key.Path()
	if err != nil {
		return fmt.Sprint(key)
	}
	return table.OneLine(path)
}

// selects checks a selection.
func selects(s kv.Selection, all bool) error {
	switch {
	case s.Prefix != nil && (s.Start != nil || s.End != nil):
		return usagef("give either --prefix, or --start and --end")
	case s.End != nil && len(s.End) == 0:
		return usagef("--end []: nothing is before it; leave it out for the end of the store")
	case !all && s.Prefix == nil && s.Start == nil && s.End == nil:
		return usagef("name the entry, or select entries with --prefix, or with --start and --end")
	}
	return nil
}

// store returns the actor's key-value store, with the bytes of its values.
func (t *target) store() kv.Store {
	return actor.NewType[struct{}](t.a.Type).Ref(t.node(), t.a.Key...).KV()
}

func (c *cli) kvGetCommand() *cobra.Command {
	var raw bool
	var dir string
	var in hostkv.GetInput
	cmd := &cobra.Command{
		Use:               "get TYPE/KEY... ENTRY",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeAddress,
	}
	check, _ := bind.Flags(cmd.Flags(), whenFlags, &in, c.input)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := bind.Key(args[1])
		if err == nil {
			err = check()
		}
		switch {
		case err != nil:
			return usageError{err}
		case raw && c.json:
			return usagef("--raw and --json contradict each other")
		case in.At != 0 && in.Time != nil:
			return usagef("--at and --time contradict each other")
		}
		in.Key = key
		return c.onData(&dir,
			func(ctx context.Context, t *target, _ []string) error { return t.get(ctx, &in, raw) })(cmd, args)
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print the bytes of the value as they are stored")
	dataFlag(cmd, &dir)
	return cmd
}

// get prints the value of an entry.
func (t *target) get(ctx context.Context, in *hostkv.GetInput, raw bool) error {
	key := in.Key
	missing := host.Errorf(host.NotFound, "%s has no entry %s", t, formatKey(key))
	if raw {
		ctx, cancel := t.c.requestContext(ctx)
		defer cancel()
		store := t.store().Branch(in.Branch)
		read := store.Reader
		switch {
		case in.At != 0:
			read = store.At(in.At)
		case in.Time != nil:
			read = store.AtTime(*in.Time)
		}
		e, found, err := read.Get(ctx, key)
		switch {
		case err != nil:
			return t.c.explain(ctx, t.node(), host.Request{Address: t.a}, err)
		case !found:
			return missing
		}
		_, err = t.c.stdout.Write(e.Value.Data)
		return err
	}
	out, err := ask(ctx, t, method.KVGet, in, askOptions{})
	switch {
	case err != nil:
		return err
	case out.Entry == nil:
		return missing
	case t.c.json:
		return t.c.printJSON(out.Entry)
	}
	printDocument(t.c.stdout, out.Entry.Value)
	return nil
}

// A condition is a command's condition on the entry, from its flags.
type condition struct {
	version uint64
	absent  bool
	given   bool // version
}

// checks returns the checks of a commit.
func (d *condition) checks(key kv.Key) []hostkv.Check {
	switch {
	case d.absent:
		return []hostkv.Check{{Key: key, Exists: new(false)}}
	case d.given:
		return []hostkv.Check{{Key: key, Version: &d.version}}
	}
	return nil
}

// fault is the error if the entry is otherwise.
func (d *condition) fault(t *target, key kv.Key) error {
	if d.absent {
		return host.Errorf(host.FailedPrecondition, "%s has an entry %s; nothing was done", t, formatKey(key))
	}
	return host.Errorf(host.FailedPrecondition,
		"the entry %s of %s is not at version %d; nothing was done", formatKey(key), t, d.version)
}

func (c *cli) kvPutCommand() *cobra.Command {
	var text, bytes bool
	var ttl time.Duration
	var when condition
	var idempotency, branch string
	cmd := &cobra.Command{
		Use:               "put TYPE/KEY... ENTRY JSON|-|@FILE",
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			when.given = cmd.Flags().Changed("if-version")
			key, err := bind.Key(args[1])
			if err == nil {
				err = bind.Duration("ttl", ttl)
			}
			switch {
			case err != nil:
				return usageError{err}
			case ttl == 0 && cmd.Flags().Changed("ttl"):
				return usagef("--ttl 0: leave it out for an entry that does not expire")
			case when.absent && when.given:
				return usagef("--if-absent and --if-version contradict each other")
			case text && bytes:
				return usagef("--text and --bytes contradict each other")
			}
			m := hostkv.Mutation{Op: "put", Key: key}
			if m.Value, m.Encoding, err = c.value(args[2], text, bytes); err != nil {
				return err
			}
			if ttl > 0 {
				m.TTLMS = new(ttl.Milliseconds())
			}
			return c.on(func(ctx context.Context, t *target, _ []string) error {
				in := hostkv.CommitInput{Branch: branch, Checks: when.checks(key), Mutations: []hostkv.Mutation{m}}
				out, err := ask(ctx, t, method.KVCommit, &in, askOptions{key: idempotency})
				switch {
				case err != nil:
					return err
				case !out.OK:
					return when.fault(t, key)
				}
				return t.result(struct {
					Version uint64 `json:"version"`
				}{out.Version}, "put %s: version %d\n", formatKey(key), out.Version)
			})(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&text, "text", false, "the value is text, and not JSON")
	flags.BoolVar(&bytes, "bytes", false, "the value is the bytes of standard input (-) or of @FILE")
	flags.DurationVar(&ttl, "ttl", 0, "how long the entry lives, 1ms to 100 years; for ever if it is not given")
	flags.Uint64Var(&when.version, "if-version", 0, "put it only if the entry has this version; 0 is for no entry")
	flags.BoolVar(&when.absent, "if-absent", false, "put it only if there is no entry")
	flags.StringVar(&branch, "branch", "", branchFlag.Usage)
	flags.StringVar(&idempotency, "idempotency-key", "", "make repeating this command safe for 24 hours")
	return cmd
}

// value reads the value of an argument.
func (c *cli) value(arg string, text, binary bool) (host.Raw, string, error) {
	if !text && !binary {
		document, err := c.input(arg)
		return document, "", err
	}
	b := []byte(arg)
	var err error
	if arg == "-" {
		b, err = io.ReadAll(c.stdin)
	} else if name, is := strings.CutPrefix(arg, "@"); is {
		b, err = os.ReadFile(name)
	} else if binary {
		return nil, "", usagef("--bytes takes the bytes from standard input (-) or from a file (@FILE)")
	}
	var document any = map[string][]byte{"$bytes": b}
	encoding := host.EncodedBytes
	if text {
		document, encoding = string(b), host.EncodedText
	}
	switch {
	case err != nil:
		return nil, "", usageError{err}
	case text && !utf8.Valid(b):
		return nil, "", usagef("the text is not UTF-8; --bytes takes it")
	}
	raw, err := json.Marshal(document)
	return raw, encoding.String(), err
}

func (c *cli) kvDeleteCommand(flags []bind.Flag) *cobra.Command {
	var in kv.Selection
	var when condition
	var yes bool
	var idempotency, branch string
	cmd := &cobra.Command{
		Use:               "delete TYPE/KEY... [ENTRY]",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: c.completeAddress,
	}
	check, _ := bind.Flags(cmd.Flags(), flags, &in, c.input)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		when.given = cmd.Flags().Changed("if-version")
		if err := check(); err != nil {
			return usageError{err}
		}
		if _, err := parseAddress(args[0]); err != nil {
			return usageError{err}
		}
		// The empty prefix selects everything, and must reach the node.
		mutation := map[string]any{"op": "delete_range"}
		var key kv.Key
		ranged := in.Prefix != nil || in.Start != nil || in.End != nil
		switch {
		case len(args) == 2 && ranged:
			return usagef("name the entry, or select entries with flags, and not both")
		case len(args) == 2:
			var err error
			if key, err = bind.Key(args[1]); err != nil {
				return usageError{err}
			}
			mutation = map[string]any{"op": "delete", "key": key}
		case when.given:
			return usagef("--if-version is of one entry")
		default:
			if err := selects(in, false); err != nil {
				return err
			}
			what := "delete the entries from " + formatKey(in.Start) + " up to " + formatKey(in.End)
			switch {
			case in.Prefix != nil && len(in.Prefix) == 0 || in.End == nil && len(in.Start) == 0 && in.Prefix == nil:
				what = "delete all entries"
			case in.Prefix != nil:
				what = "delete the entries below " + formatKey(in.Prefix)
			case in.End == nil:
				what = "delete the entries from " + formatKey(in.Start) + " on"
			case in.Start == nil:
				what = "delete the entries before " + formatKey(in.End)
			}
			if err := c.consent(yes, what+" of "+args[0]); err != nil {
				return err
			}
			for member, of := range map[string]kv.Key{"prefix": in.Prefix, "start": in.Start, "end": in.End} {
				if of != nil {
					mutation[member] = of
				}
			}
		}
		return c.on(func(ctx context.Context, t *target, _ []string) error {
			commit := map[string]any{"mutations": []any{mutation}}
			if branch != "" {
				commit["branch"] = branch
			}
			if checks := when.checks(key); checks != nil {
				commit["checks"] = checks
			}
			var out hostkv.CommitOutput
			if err := t.ask(ctx, method.KVCommit.Row, commit, &out,
				askOptions{key: idempotency, existing: true}); err != nil {
				return err
			}
			if !out.OK {
				return when.fault(t, key)
			}
			if out.Blind {
				return t.result(map[string]bool{"blind": true},
					"deleted what there was: the token may not read how many entries\n")
			}
			var deleted struct {
				Deleted int64 `json:"deleted"`
			}
			for _, r := range out.Results {
				deleted.Deleted += r.Deleted
			}
			return t.result(deleted, "deleted %s\n", table.Plural(deleted.Deleted, "entry"))
		})(cmd, args)
	}
	cmd.Flags().StringVar(&branch, "branch", "", branchFlag.Usage)
	cmd.Flags().Uint64Var(&when.version, "if-version", 0, "delete it only if the entry has this version")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&idempotency, "idempotency-key", "", "make repeating this command safe for 24 hours")
	return cmd
}

func (c *cli) kvCommitCommand() *cobra.Command {
	var idempotency string
	cmd := &cobra.Command{
		Use:               "commit TYPE/KEY... JSON|-|@FILE",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := c.input(args[1])
			if err != nil {
				return err
			}
			return c.on(func(ctx context.Context, t *target, _ []string) error {
				var out host.Raw
				if err := t.ask(ctx, method.KVCommit.Row, host.Raw(in), &out,
					askOptions{key: idempotency}); err != nil {
					return err
				}
				if t.c.json {
					if err := t.c.printJSON(out); err != nil {
						return err
					}
				} else {
					printDocument(t.c.stdout, out)
				}
				var done hostkv.CommitOutput
				if err := json.Unmarshal(out, &done); err != nil {
					return host.Errorf(host.Internal,
						"the node's answer to %s is not what was expected: %v", method.KVCommit.Row.Name, err)
				}
				if !done.OK {
					return host.Errorf(host.FailedPrecondition, "%s failed, so nothing was done",
						table.Plural(len(done.Failed), "check"))
				}
				return nil
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&idempotency, "idempotency-key", "", "make repeating this command safe for 24 hours")
	return cmd
}
