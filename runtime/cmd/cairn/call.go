package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

func (c *cli) callCommand() *cobra.Command {
	var idempotencyKey string
	var existing bool
	cmd := &cobra.Command{
		Use:               "call TYPE/KEY... METHOD [JSON|-|@FILE]",
		Args:              cobra.RangeArgs(2, 3),
		ValidArgsFunction: c.completeCall,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.request(args[0], args[1], args[2:])
			if err != nil {
				return err
			}
			r.IdempotencyKey, r.Existing = idempotencyKey, existing
			return c.send(cmd, r)
		},
	}
	cmd.Flags().StringVar(&idempotencyKey, "idempotency-key", "",
		"make repeating this call safe for 24 hours: the first answer is stored and given again")
	cmd.Flags().BoolVar(&existing, "existing", false, "fail with not_found instead of creating the actor")
	return cmd
}

func (c *cli) createCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "create TYPE/KEY... [METHOD [JSON|-|@FILE]]",
		Args:              cobra.RangeArgs(1, 3),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			method, input := "", []string(nil)
			if len(args) > 1 {
				method, input = args[1], args[2:]
			}
			r, err := c.request(args[0], method, input)
			if err != nil {
				return err
			}
			r.Create = true
			return c.send(cmd, r)
		},
	}
}

// request makes a request of arguments: an address, a method and at most one input.
func (c *cli) request(address, method string, input []string) (*host.Request, error) {
	a, err := parseAddress(address)
	if err != nil {
		return nil, usageError{err}
	}
	r := &host.Request{Address: a, Method: method, Codec: host.JSON}
	if len(input) > 0 {
		if r.Input, err = c.input(input[0]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// input reads the input that an argument stands for and checks that it is JSON.
func (c *cli) input(arg string) ([]byte, error) {
	b, from, err := c.document(arg)
	if err != nil {
		return nil, err
	}
	var document json.RawMessage
	if err := json.Unmarshal(b, &document); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, usagef("%s is not JSON, at byte %d: %w", from, syntax.Offset, err)
		}
		return nil, usagef("%s is not JSON: %w", from, err)
	}
	return b, nil
}

// document reads the document of an argument, and returns its source: the argument itself, - for
// standard input, or @FILE.
func (c *cli) document(arg string) (b []byte, from string, err error) {
	b, from = []byte(arg), "the input"
	if arg == "-" {
		from = "standard input"
		b, err = io.ReadAll(c.stdin)
	} else if name, ok := strings.CutPrefix(arg, "@"); ok {
		from = name
		b, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, from, usageError{err}
	}
	return b, from, nil
}

// send makes the call and prints the answer.
func (c *cli) send(cmd *cobra.Command, r *host.Request) error {
	n, err := c.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	ctx, cancel := c.requestContext(cmd.Context())
	defer cancel()
	reply, err := n.Call(ctx, r)
	if err != nil {
		return c.explain(cmd.Context(), n, *r, err)
	}
	if c.json {
		output := json.RawMessage(reply.Output)
		if len(output) == 0 {
			output = json.RawMessage("null")
		}
		return c.printJSON(struct {
			Output   json.RawMessage `json:"output"`
			Version  uint64          `json:"version"`
			Replayed bool            `json:"replayed"`
		}{output, reply.Version, reply.Replayed})
	}
	printDocument(c.stdout, reply.Output)
	if r.Create {
		fmt.Fprintf(c.stderr, "created %s\n", formatAddress(r.Type, r.Key))
	}
	if reply.Replayed {
		c.note("the answer of an earlier call with the same idempotency key, at version %d", reply.Version)
	}
	return nil
}
