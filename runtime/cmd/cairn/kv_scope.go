package main

import (
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) kvScopeCommand() *cobra.Command {
	prefix := bind.Flag{Member: "prefix", Usage: "the entries whose keys begin with these parts; without it all"}
	return group("scope",
		row[hostkv.ScopesInput, hostkv.ScopesOutput]{
			use:    "list TYPE/KEY...",
			method: method.KVScopes, none: "ACTOR has no scopes",
			flags: []bind.Flag{{Member: "prefix", Usage: "the scopes whose prefixes begin with these parts"}},
			next: func(in *hostkv.ScopesInput, out *hostkv.ScopesOutput) bool {
				in.Cursor = out.Cursor
				return in.Cursor != ""
			},
			list: listed("PREFIX,KEYS,BYTES,GROUPS,POLICY",
				func(o *hostkv.ScopesOutput) []hostkv.Scope { return o.Scopes }, func(s *hostkv.Scope) []string {
					groups, policy := "-", "-"
					if s.CountGroups || s.MaxGroups > 0 {
						groups = strconv.FormatInt(s.Groups, 10)
					}
					if b, err := json.Marshal(s.ScopePolicy); err == nil {
						policy = table.OneLine(string(b))
					}
					return []string{formatPrefix(s.Prefix), strconv.FormatInt(s.Keys, 10),
						strconv.FormatInt(s.Bytes, 10), groups, policy}
				}),
		}.command(c),
		row[hostkv.SetScopeInput, hostkv.Scope]{
			use:    "set TYPE/KEY...",
			method: method.KVSetScope,
			flags: []bind.Flag{
				prefix,
				{Member: "extend", Usage: "change only what flags say, and leave the rest of the policy as it is"},
				{Member: "max_keys", Usage: "how many entries it may have; 0 is no bound, here and below"},
				{Member: "max_bytes", Usage: "how many bytes its keys and values may have"},
				{Member: "max_groups",
					Usage: "how many groups it may have: entries with the same part behind the prefix, and more parts after it"},
				{Member: "count_groups", Usage: "count its groups, without a bound"},
				{Member: "default_ttl_ms",
					Usage: "how long entries live that are put without a time to live; 0 is for ever"},
				{Member: "keep_versions", Usage: "how many versions of an entry are kept besides the last, up to 100"},
				{Member: "keep_for_ms", Usage: "for how long versions are kept"},
				{Member: "log", Usage: "keep its changes for kv.feed"},
				{Member: "log_events", Usage: "how many changes the log keeps; 0 is 100,000"},
				{Member: "log_bytes", Usage: "how many bytes of changes the log keeps; 0 is 64 MiB"},
				{Member: "log_for_ms", Usage: "for how long the log keeps changes; 0 is without end"},
				{Member: "read_only", Usage: "refuse all changes"},
				{Member: "info", Usage: "a document that the scope keeps: JSON, - or @FILE", Document: true},
			},
			check: func(_ line, in *hostkv.SetScopeInput) error { whole(&in.Prefix); return nil },
			print: func(t *target, in *hostkv.SetScopeInput, out *hostkv.Scope) error {
				return t.result(out, "set the scope %s of %s, which has %s\n",
					formatPrefix(in.Prefix), t, table.Plural(out.Keys, "entry"))
			},
		}.command(c),
		row[hostkv.RemoveScopeInput, hostkv.RemoveScopeOutput]{
			use:    "remove TYPE/KEY...",
			method: method.KVRemoveScope,
			flags:  []bind.Flag{prefix, {Member: "entries", Usage: "remove its entries, too"}},
			check:  func(_ line, in *hostkv.RemoveScopeInput) error { whole(&in.Prefix); return nil },
			grave: func(in *hostkv.RemoveScopeInput, actor string) string {
				if !in.Entries {
					return ""
				}
				return "remove the scope " + formatPrefix(in.Prefix) + " of " + actor + " and its entries"
			},
			print: func(t *target, in *hostkv.RemoveScopeInput, out *hostkv.RemoveScopeOutput) error {
				switch {
				case !out.Removed:
					return t.result(out, "there is no scope %s in %s\n", formatPrefix(in.Prefix), t)
				case in.Entries:
					return t.result(out, "removed the scope %s of %s, and %s\n",
						formatPrefix(in.Prefix), t, table.Plural(out.Deleted, "entry"))
				}
				return t.result(out, "removed the scope %s of %s\n", formatPrefix(in.Prefix), t)
			},
		}.command(c))
}

func (c *cli) kvHistoryCommand() *cobra.Command {
	return row[hostkv.HistoryInput, hostkv.HistoryOutput]{
		use:    "history TYPE/KEY... ENTRY",
		method: method.KVHistory, none: "no versions of the entry are kept",
		flags: []bind.Flag{
			branchFlag,
			{Member: "limit", Usage: "how many versions to print; 0 prints all"},
		},
		check: func(l line, in *hostkv.HistoryInput) (err error) {
			if in.Key, err = bind.Key(l.args[0]); err != nil {
				return usageError{err}
			}
			return nil
		},
		next: func(in *hostkv.HistoryInput, out *hostkv.HistoryOutput) bool {
			in.Before = out.Next
			return in.Before != 0
		},
		list: listed("VERSION,OP,TIME,EXPIRES,VALUE",
			func(o *hostkv.HistoryOutput) []hostkv.Version { return o.Versions }, func(v *hostkv.Version) []string {
				value := "-"
				if v.Op == "put" {
					value = brief(v.Value)
				}
				return []string{strconv.FormatUint(v.Version, 10), v.Op, table.Clock(v.Time), clockOf(v.Expires), value}
			}),
	}.command(c)
}
