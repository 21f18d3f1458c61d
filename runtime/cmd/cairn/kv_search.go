package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// whole makes the missing prefix of an index that of the whole store.
func whole(prefix *hostkv.Key) {
	if *prefix == nil {
		*prefix = hostkv.Key{}
	}
}

func (c *cli) kvSearchCommand() *cobra.Command {
	return row[hostkv.SearchInput, hostkv.SearchOutput]{
		use:    "search TYPE/KEY... QUERY",
		method: method.KVSearch, none: "no entries",
		flags: []bind.Flag{
			{Member: "prefix",
				Usage: "the index of the entries whose keys begin with these parts; without it that of the whole store"},
			{Member: "where", Usage: "a filter that the entries meet besides: JSON, - or @FILE", Document: true},
			{Member: "snippet", Initial: 10, Usage: "how many words around the matches to print, up to 64"},
			{Member: "limit", Initial: 20, Usage: "how many entries to print; 0 prints all"},
		},
		check: func(_ line, in *hostkv.SearchInput) error { whole(&in.Prefix); return nil },
		next: func(in *hostkv.SearchInput, out *hostkv.SearchOutput) bool {
			if in.Cursor = out.Cursor; in.Cursor == "" && out.Partial {
				c.note("the index is being built, so entries may be missing")
			}
			return in.Cursor != ""
		},
		list: listed("KEY,SCORE,SNIPPET",
			func(o *hostkv.SearchOutput) []hostkv.Hit { return o.Entries }, func(h *hostkv.Hit) []string {
				text := ""
				for _, part := range h.Snippet {
					if part.Match {
						part.Text = "[" + part.Text + "]"
					}
					text += part.Text
				}
				return []string{formatKey(h.Key), strconv.FormatFloat(h.Score, 'g', 4, 64), table.OneLine(text)}
			}),
	}.command(c)
}

func (c *cli) kvIndexCommand() *cobra.Command {
	prefix := []bind.Flag{{Member: "prefix", Usage: "the entries whose keys begin with these parts; without it all"}}
	var fields []string
	set := row[hostkv.SetIndexInput, hostkv.Index]{
		use:    "set TYPE/KEY...",
		method: method.KVSetIndex,
		flags: append(prefix,
			bind.Flag{Member: "tokenizer",
				Usage: "what words are: unicode61 (also if it is missing), porter, ascii or trigram"}),
		check: func(_ line, in *hostkv.SetIndexInput) error {
			whole(&in.Prefix)
			if len(fields) == 0 {
				return usagef("name the parts of the values to index with --field")
			}
			for _, text := range fields {
				path, weight, weighted := strings.Cut(text, "=")
				f := hostkv.IndexField{Path: path}
				if weighted {
					var err error
					if f.Weight, err = strconv.ParseFloat(weight, 64); err != nil {
						return usagef("--field %s: the weight is no number", text)
					}
				}
				in.Fields = append(in.Fields, f)
			}
			return nil
		},
		print: func(t *target, in *hostkv.SetIndexInput, out *hostkv.Index) error {
			return t.result(out, "the index of %s in %s is %s\n", formatPrefix(in.Prefix), t, out.Status)
		},
	}.command(c)
	set.Flags().StringArrayVar(&fields, "field", nil,
		"a part of the values, PATH or PATH=WEIGHT; may be given more than once")
	return group("index",
		row[hostkv.IndexesInput, hostkv.IndexesOutput]{
			use:    "list TYPE/KEY...",
			method: method.KVIndexes, none: "ACTOR has no indexes",
			list: listed("PREFIX,STATUS,DOCUMENTS,TOKENIZER,FIELDS",
				func(o *hostkv.IndexesOutput) []hostkv.Index { return o.Indexes }, func(ix *hostkv.Index) []string {
					var paths []string
					for _, f := range ix.Fields {
						text := f.Path
						if f.Weight != 0 {
							text += "=" + strconv.FormatFloat(f.Weight, 'g', -1, 64)
						}
						paths = append(paths, text)
					}
					return []string{formatPrefix(ix.Prefix), ix.Status,
						strconv.FormatInt(ix.Documents, 10), ix.Tokenizer, table.OneLine(strings.Join(paths, ", "))}
				}),
		}.command(c),
		set,
		row[hostkv.RemoveIndexInput, hostkv.RemoveIndexOutput]{
			use:    "remove TYPE/KEY...",
			method: method.KVRemoveIndex, flags: prefix,
			check: func(_ line, in *hostkv.RemoveIndexInput) error { whole(&in.Prefix); return nil },
			print: func(t *target, in *hostkv.RemoveIndexInput, out *hostkv.RemoveIndexOutput) error {
				if !out.Removed {
					return t.result(out, "there is no index of %s in %s\n", formatPrefix(in.Prefix), t)
				}
				return t.result(out, "removed the index of %s in %s\n", formatPrefix(in.Prefix), t)
			},
		}.command(c))
}

// formatPrefix is formatKey, or [] for the prefix of all keys.
func formatPrefix(prefix hostkv.Key) string {
	if len(prefix) == 0 {
		return "[]"
	}
	return formatKey(prefix)
}
