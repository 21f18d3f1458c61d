package main

import (
	"io"

	"github.com/spf13/cobra"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
)

func (c *cli) kvRenderCommand() *cobra.Command {
	return row[hostkv.RenderInput, hostkv.RenderOutput]{
		use:    "render TYPE/KEY... TEMPLATE|-|@FILE",
		method: method.KVRender, offline: true,
		flags: []bind.Flag{
			{Member: "prefix", Usage: "the entries whose keys begin with these parts; without it all"},
			{Member: "strict", Usage: "refuse an absent key"},
		},
		check: func(l line, in *hostkv.RenderInput) error {
			b, _, err := c.document(l.args[0])
			in.Template = string(b)
			return err
		},
		print: func(t *target, _ *hostkv.RenderInput, out *hostkv.RenderOutput) error {
			if t.c.json {
				return t.c.printJSON(out)
			}
			_, err := io.WriteString(t.c.stdout, out.Text)
			return err
		},
	}.command(c)
}
