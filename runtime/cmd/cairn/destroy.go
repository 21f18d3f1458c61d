package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
)

func (c *cli) destroyCommand() *cobra.Command {
	return c.verbCommand(verb{
		name: "destroy", done: "destroyed", field: "destroyed", grave: true,
		do: func(ctx context.Context, t *target) (bool, error) {
			limited, cancel := t.c.requestContext(ctx)
			defer cancel()
			if err := t.n.Destroy(limited, t.a); err != nil {
				return false, t.c.explain(ctx, t.n, host.Request{Address: t.a}, err)
			}
			return true, nil
		},
	})
}

// confirm asks a question on the terminal. Only "y" and "yes" are consent; the end of input is not.
func (c *cli) confirm(question string) bool {
	fmt.Fprintf(c.stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(c.stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true
	}
	return false
}

// consent asks before something that cannot be undone.
func (c *cli) consent(given bool, what string) error {
	switch {
	case given:
		return nil
	case !terminal(c.stdin):
		return usagef("%s: that cannot be undone, confirm with --yes", what)
	case !c.confirm(what + "?"):
		return fmt.Errorf("not confirmed: everything is left as it is")
	}
	return nil
}
