package main

import (
	_ "embed"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed help.md
var helpPage string

// describe gives the commands their texts. A section of help.md is the path of a command, a line, a
// text, and examples, which are indented by four columns.
func describe(root *cobra.Command) {
	sections := strings.Split(helpPage, "\n## "+root.Name())
	for _, section := range sections[1:] {
		path, texts, _ := strings.Cut(section, "\n\n")
		short, texts, _ := strings.Cut(texts, "\n\n")
		long, example, found := strings.Cut("\n"+strings.TrimRight(texts, "\n"), "\n\n    ")
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil || cmd.CommandPath() != root.Name()+path {
			panic("help.md describes no command:" + path)
		}
		cmd.Short, cmd.Long = short, long[1:]
		if found {
			cmd.Example = "  " + strings.ReplaceAll(example, "\n    ", "\n  ")
		}
	}
}
