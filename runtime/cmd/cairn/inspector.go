package main

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/kv"
)

// inspectorCommand makes the token that shows one actor, which ends the one before.
func (c *cli) inspectorCommand() *cobra.Command {
	var expires time.Duration
	var write, end bool
	cmd := &cobra.Command{
		Use:               "inspector TYPE/KEY...",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: c.on(func(ctx context.Context, t *target, _ []string) error {
			if expires < 0 {
				return usagef("--expires %s: it must not be negative", expires)
			}
			ctx, cancel := c.requestContext(ctx)
			defer cancel()
			store := t.store()
			if end {
				return t.endInspectors(ctx, store)
			}
			text, made, err := store.CreateToken(ctx, kv.TokenConfig{
				Rights: kv.Rights{Read: true, Write: write, Watch: true,
					Inspect: true}, Label: "inspector", TTL: expires,
			})
			if err != nil {
				return err
			}
			address := strings.TrimSuffix(c.url, "/") + "/dashboard/#token=" + url.QueryEscape(text) +
				"&to=" + url.QueryEscape("/actor/"+formatAddress(t.a.Type, t.a.Key)+"/-/")
			return t.result(map[string]string{"url": address, "token": text, "id": made.ID}, "%s\n", address)
		}),
	}
	cmd.Flags().DurationVar(&expires, "expires", 24*time.Hour, "how long it is valid; 0 for ever")
	cmd.Flags().BoolVar(&write, "write", false, "it may change the key-value store, too")
	cmd.Flags().BoolVar(&end, "end", false, "end the token of the actor that there is, and make none")
	cmd.MarkFlagsMutuallyExclusive("end", "write")
	cmd.MarkFlagsMutuallyExclusive("end", "expires")
	return cmd
}

// endInspectors revokes what shows the actor: one token, or several that an older version has made.
func (t *target) endInspectors(ctx context.Context, store kv.Store) error {
	tokens, err := store.Tokens(ctx)
	if err != nil {
		return err
	}
	ended := 0
	for _, old := range tokens {
		if !old.Inspect {
			continue
		}
		if _, err := store.RevokeToken(ctx, old.ID); err != nil {
			return err
		}
		ended++
	}
	return t.result(map[string]int{"ended": ended}, "%d ended\n", ended)
}
