package main

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/kv"
)

// inspectorLabel tells the tokens of cairn inspector from others of the actor.
const inspectorLabel = "inspector"

// inspectorCommand makes a token that shows one actor, and ends the older ones that it has made.
func (c *cli) inspectorCommand() *cobra.Command {
	var expires time.Duration
	var end bool
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
			store, ended := t.store(), 0
			tokens, err := store.Tokens(ctx)
			if err != nil {
				return err
			}
			for _, old := range tokens {
				if !old.Inspect || old.Label != inspectorLabel {
					continue
				}
				if _, err := store.RevokeToken(ctx, old.ID); err != nil {
					return err
				}
				ended++
			}
			if end {
				return t.result(map[string]int{"ended": ended}, "%d ended\n", ended)
			}
			text, made, err := store.CreateToken(ctx, kv.TokenConfig{
				Rights: kv.Rights{Read: true, Watch: true, Inspect: true}, Label: inspectorLabel, TTL: expires,
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
	cmd.Flags().BoolVar(&end, "end", false, "end what the command has made before, and make nothing")
	return cmd
}
