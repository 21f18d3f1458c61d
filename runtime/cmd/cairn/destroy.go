package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

func (c *cli) destroyCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "destroy TYPE/KEY...",
		Short: "Remove an actor and everything that it stored",
		Long: "destroy runs the actor's destroy hook and removes its state, data, alarms and messages in one commit. It cannot be\n" +
			"undone. The key can be used again; a new actor there has a new id.\n\n" +
			"On a terminal it asks first; elsewhere it needs --yes. With --json it prints {\"destroyed\":true,\"type\":...,\"key\":[...]}.",
		Example:           "  cairn destroy cell/acme --yes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			if !yes && !terminal(c.stdin) {
				return usagef("destroying %s cannot be undone: confirm with --yes", args[0])
			}
			return c.destroy(cmd, a, yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (c *cli) destroy(cmd *cobra.Command, a host.Address, confirmed bool) error {
	n, err := c.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	if !confirmed {
		ctx, cancel := c.requestContext(cmd.Context())
		s, err := n.Lookup(ctx, a)
		cancel()
		if err != nil {
			return c.explain(cmd.Context(), n, host.Request{Address: a}, err)
		}
		if !c.confirm(fmt.Sprintf("Destroy %s (%s, %s)?", formatAddress(s.Type, s.Key), plural(s.Keys, "key"), size(s.Bytes))) {
			return fmt.Errorf("not confirmed: %s is left as it is", formatAddress(s.Type, s.Key))
		}
	}
	ctx, cancel := c.requestContext(cmd.Context())
	defer cancel()
	if err := n.Destroy(ctx, a); err != nil {
		return c.explain(cmd.Context(), n, host.Request{Address: a}, err)
	}
	if c.json {
		return c.printJSON(struct {
			Destroyed bool     `json:"destroyed"`
			Type      string   `json:"type"`
			Key       []string `json:"key"`
		}{true, a.Type, append([]string{}, a.Key...)})
	}
	fmt.Fprintf(c.stdout, "destroyed %s\n", formatAddress(a.Type, a.Key))
	return nil
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
