package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// branchFlag is the flag that names a branch.
var branchFlag = bind.Flag{Member: "branch", Usage: "a branch of the store; see cairn kv branch"}

// whenFlags say of which branch entries are read, and as of when.
var whenFlags = []bind.Flag{
	branchFlag,
	{Member: "at", Usage: "the entries as they were at this version, such as one of cairn kv history"},
	{Member: "time", Usage: "the entries as they were at this time, such as 2027-01-01T00:00:00Z"},
}

func (c *cli) kvBranchCommand(selection []bind.Flag) *cobra.Command {
	return group("branch",
		row[hostkv.BranchesInput, hostkv.BranchesOutput]{
			use:    "list TYPE/KEY...",
			method: method.KVBranches, none: "ACTOR has no branches",
			list: listed("BRANCH,FROM,VERSION,CREATED,READ-ONLY",
				func(o *hostkv.BranchesOutput) []hostkv.Branch { return o.Branches }, func(b *hostkv.Branch) []string {
					return []string{table.OneLine(b.Branch), branchName(b.From),
						strconv.FormatUint(b.Version,
							10), b.Created.Format(time.RFC3339), strconv.FormatBool(b.ReadOnly)}
				}),
		}.command(c),
		row[hostkv.ForkInput, hostkv.Branch]{
			use:    "fork TYPE/KEY... BRANCH",
			method: method.KVFork,
			flags: []bind.Flag{
				{Member: "from", Usage: "the branch that it begins as; without it the store itself"},
				{Member: "read_only", Usage: "it does not change: a tag"},
			},
			print: func(t *target, _ *hostkv.ForkInput, out *hostkv.Branch) error {
				return t.result(out, "forked %s at version %d\n", table.OneLine(out.Branch), out.Version)
			},
		}.command(c),
		row[hostkv.RemoveBranchInput, hostkv.RemoveBranchOutput]{
			use:    "remove TYPE/KEY... BRANCH",
			method: method.KVRemoveBranch,
			grave: func(in *hostkv.RemoveBranchInput, actor string) string {
				return "remove the branch " + table.OneLine(in.Branch) + " of " + actor
			},
			print: func(t *target, in *hostkv.RemoveBranchInput, out *hostkv.RemoveBranchOutput) error {
				if !out.Removed {
					return t.result(out, "%s has no branch %s\n", t, table.OneLine(in.Branch))
				}
				return t.result(out, "removed the branch %s of %s\n", table.OneLine(in.Branch), t)
			},
		}.command(c),
		c.kvDiffCommand(selection), c.kvMergeCommand(selection))
}

// branchName is the name of a branch, or what stands for the store itself.
func branchName(name string) string {
	if name == "" {
		return "-"
	}
	return table.OneLine(name)
}

// momentFlags adds the flags that name a branch at a version.
func momentFlags(cmd *cobra.Command, name, what string) (m *hostkv.Moment) {
	m = new(hostkv.Moment)
	cmd.Flags().StringVar(&m.Branch, name, "", "the branch "+what+"; without it the store itself")
	cmd.Flags().Uint64Var(&m.At, name+"-at", 0, "the version of --"+name+"; without it the present one")
	return m
}

func (c *cli) kvDiffCommand(selection []bind.Flag) *cobra.Command {
	var from, to *hostkv.Moment
	cmd := row[hostkv.DiffInput, hostkv.DiffOutput]{
		use:    "diff TYPE/KEY...",
		method: method.KVDiff, none: "no differences",
		flags: append(selection[:len(selection):len(selection)],
			bind.Flag{Member: "limit", Usage: "how many entries to print; 0 prints all"}),
		check: func(_ line, in *hostkv.DiffInput) error {
			in.From, in.To = *from, *to
			return selects(in.Selection, true)
		},
		next: func(in *hostkv.DiffInput, out *hostkv.DiffOutput) bool {
			in.Cursor = out.Cursor
			return in.Cursor != ""
		},
		list: listed("KEY,FROM,TO",
			func(o *hostkv.DiffOutput) []hostkv.Difference { return o.Changes }, func(d *hostkv.Difference) []string {
				return []string{formatKey(d.Key), briefEntry(d.From), briefEntry(d.To)}
			}),
	}.command(c)
	from, to = momentFlags(cmd, "from", "to compare"), momentFlags(cmd, "to", "to compare with")
	return cmd
}

// briefEntry is the value of an entry, or what stands for none.
func briefEntry(e *hostkv.Entry) string {
	if e == nil {
		return "-"
	}
	return brief(e.Value)
}

func (c *cli) kvMergeCommand(selection []bind.Flag) *cobra.Command {
	var in hostkv.MergeInput
	cmd := &cobra.Command{Use: "merge TYPE/KEY...", Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress}
	check, _ := bind.Flags(cmd.Flags(), append(selection[:len(selection):len(selection)],
		bind.Flag{Member: "target", Usage: "the branch to merge into; without it the store itself"},
		bind.Flag{Member: "strategy",
			Usage: "what is done with entries that both have changed: strict (also if it is missing), theirs or ours"},
		bind.Flag{Member: "dry_run", Usage: "merge nothing, and print what would be"}), &in, c.input)
	source, base := momentFlags(cmd, "source", "to merge"),
		momentFlags(cmd, "base", "that both began as, instead of what they share")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return usageError{err}
		}
		if err := selects(in.Selection, true); err != nil {
			return err
		}
		if in.Source = *source; cmd.Flags().Changed("base") || base.At != 0 {
			in.Base = base
		}
		return c.on(func(ctx context.Context, t *target, _ []string) error {
			out, err := ask(ctx, t, method.KVMerge, &in, askOptions{})
			if err != nil {
				return err
			}
			if !out.OK && !t.c.json {
				for i := range out.Conflicts {
					f := &out.Conflicts[i]
					t.c.note("%s: %s here, %s there, %s before", formatKey(f.Key),
						briefEntry(f.Target), briefEntry(f.Source), briefEntry(f.Base))
				}
			}
			verb := "merged"
			if in.DryRun {
				verb = "would merge"
			}
			if out.OK || t.c.json {
				if err := t.result(out, "%s: %d put, %d deleted, %d in conflict\n", verb, out.Put,
					out.Deleted, out.Conflicted); err != nil {
					return err
				}
			}
			if !out.OK {
				return host.Errorf(host.FailedPrecondition,
					"both have changed %s, so nothing was merged; --strategy decides", table.Plural(out.Conflicted, "entry"))
			}
			return nil
		})(cmd, args)
	}
	return cmd
}
