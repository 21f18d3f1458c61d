package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/runtime"
)

// A release says what this binary is.
type release struct {
	Version string `json:"version"`
	// Revision is the commit that it was built from, if the build recorded one.
	Revision    string `json:"revision,omitempty"`
	Go          string `json:"go"`
	StoreFormat uint64 `json:"store_format"`
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			r := currentRelease()
			if c.json {
				return c.printJSON(r)
			}
			t := c.table()
			t.Row("cairn", r.Version)
			if r.Revision != "" {
				t.Row("commit", r.Revision)
			}
			t.Row("go", r.Go)
			t.Row("store format", fmt.Sprint(r.StoreFormat))
			t.Flush()
			return nil
		},
	}
}

func currentRelease() release {
	r := release{Version: "unknown", StoreFormat: runtime.StoreFormat}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return r
	}
	r.Version, r.Go = info.Main.Version, info.GoVersion
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			r.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = " with changes"
		}
	}
	if r.Revision != "" {
		r.Revision += modified
	}
	return r
}
