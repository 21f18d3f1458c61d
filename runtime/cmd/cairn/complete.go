package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cell"
)

// completionTimeout bounds how long the shell waits for the node. Without a node there are no
// completions.
const completionTimeout = 10 * time.Second

// maxSuggestions bounds what is offered at once.
const maxSuggestions = 200

// completeType completes the name of an actor type.
func (c *cli) completeType(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	n, ctx, done := c.completionNode(cmd)
	defer done()
	if n == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return withPrefix(types(ctx, n), word), cobra.ShellCompDirectiveNoFileComp
}

// completeAddress completes TYPE/PART/PART, one part at a time as a shell completes paths.
func (c *cli) completeAddress(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	n, ctx, done := c.completionNode(cmd)
	defer done()
	if n == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	typ, _, more := strings.Cut(word, "/")
	if !more {
		words := withPrefix(types(ctx, n), word)
		for i := range words {
			words[i] += "/"
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}

	// What stands before the last slash is settled; the part after it may be unfinished.
	settled := word[:strings.LastIndexByte(word, '/')]
	q := host.ListQuery{Type: typ, Limit: maxPage, Brief: true}
	if settled != typ {
		a, err := parseAddress(settled)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		q.Prefix = a.Key
	}
	suggestions, partial := c.nextParts(ctx, n, q, settled, word)
	directive := cobra.ShellCompDirectiveNoFileComp
	if partial {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return suggestions, directive
}

// completeAddresses completes one address after another.
func (c *cli) completeAddresses(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	return c.completeAddress(cmd, nil, word)
}

// nextParts lists what can stand after settled, as whole words that begin with word. partial
// reports that one of them is not an actor but the beginning of the keys of several.
func (c *cli) nextParts(ctx context.Context, n reader, q host.ListQuery, settled,
	word string) (suggestions []string, partial bool) {
	for len(suggestions) < maxSuggestions {
		page, err := n.List(ctx, q)
		if err != nil {
			return suggestions, partial
		}
		for _, s := range page.Actors {
			if len(s.Key) <= len(q.Prefix) {
				continue
			}
			suggestion := settled + "/" + formatPart(s.Key[len(q.Prefix)])
			if len(s.Key) > len(q.Prefix)+1 {
				suggestion += "/"
			}
			if !strings.HasPrefix(suggestion, word) || slices.Contains(suggestions, suggestion) {
				continue
			}
			partial = partial || strings.HasSuffix(suggestion, "/")
			suggestions = append(suggestions, suggestion)
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			break
		}
	}
	return suggestions, partial
}

// completeCall completes an address, then leaves method and input alone, except for the methods of
// the built-in type.
func (c *cli) completeCall(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return c.completeAddress(cmd, args, word)
	case 1:
		if typ, _, _ := strings.Cut(args[0], "/"); typ == cell.Type.Name() {
			return withPrefix(cellMethods(), word), cobra.ShellCompDirectiveNoFileComp
		}
	case 2:
		if strings.HasPrefix(word, "@") {
			return nil, cobra.ShellCompDirectiveDefault
		}
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completionNode opens the directory of --data if it is given, otherwise the node.
func (c *cli) completionNode(cmd *cobra.Command) (reader, context.Context, func()) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	dir := ""
	if f := cmd.Flag("data"); f != nil {
		dir = f.Value.String()
	}
	n, done, err := c.open(ctx, dir)
	if err != nil {
		return nil, ctx, cancel
	}
	return n, ctx, func() {
		cancel()
		done()
	}
}

func withPrefix(words []string, prefix string) []string {
	var kept []string
	for _, w := range words {
		if strings.HasPrefix(w, prefix) {
			kept = append(kept, w)
		}
	}
	return kept
}
