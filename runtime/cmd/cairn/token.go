package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) tokenCommand() *cobra.Command {
	var rights string
	create := row[token.CreateInput, token.CreateOutput]{
		use:    "create TYPE/KEY...",
		method: method.TokenCreate,
		flags: []bind.Flag{
			{Member: "prefix", Usage: "good for the keys that begin with these parts; without it for all"},
			{Member: "ttl_ms", Name: "expires",
				Usage: "how long it is valid, 1ms to 100 years; for ever if it is not given"},
			{Member: "label", Usage: "any text, to tell tokens apart"},
		},
		check: func(l line, in *token.CreateInput) error {
			if l.given("expires") && in.TTLMS == 0 {
				return usagef("--expires 0: leave it out for a token that does not expire")
			}
			for word := range strings.SplitSeq(rights, ",") {
				if token.ParseRight(word) == 0 {
					return usagef("--rights %s: %q is not one of read, write, watch and inspect", rights, word)
				}
				in.Rights = append(in.Rights, word)
			}
			return nil
		},
		print: func(t *target, _ *token.CreateInput, out *token.CreateOutput) error {
			if !t.c.json {
				t.c.note("the token has the id %s, and is not shown again", out.ID)
			}
			return t.result(out, "%s\n", out.Text)
		},
	}.command(c)
	create.Flags().StringVar(&rights, "rights", "read",
		"what it allows: read, write, watch and inspect, with commas between them")
	return group("token",
		create,
		row[method.None, token.ListOutput]{
			use:    "list TYPE/KEY...",
			method: method.TokenList, none: "ACTOR has no tokens",
			list: listed("ID,RIGHTS,PREFIX,CREATED,EXPIRES,LABEL",
				func(o *token.ListOutput) []token.Token { return o.Tokens }, func(t *token.Token) []string {
					return []string{t.ID, strings.Join(t.Rights, ","), formatPrefix(t.Prefix),
						table.Clock(t.Created), clockOf(t.Expires), cmp.Or(table.OneLine(t.Label), "-")}
				}),
		}.command(c),
		row[token.RevokeInput, host.CountOutput]{
			use:    "revoke TYPE/KEY... ID",
			method: method.TokenRevoke,
			print: func(t *target, in *token.RevokeInput, out *host.CountOutput) error {
				if out.Count == 0 {
					return t.result(out, "%s has no token %s\n", t, in.ID)
				}
				return t.result(out, "revoked the token %s of %s\n", in.ID, t)
			},
		}.command(c))
}
