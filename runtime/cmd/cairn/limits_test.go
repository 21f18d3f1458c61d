package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestLimitsOfACellAreSetByConfigurationAndByVerb(t *testing.T) {
	dir := t.TempDir()
	file := configFile(t, "[limits.cell]\nstorage_bytes = \"64KiB\"\n")
	d := serve(t, dir, "--config", file)
	put := `call cell/a put {"key":["%s"],"value":"` + strings.Repeat("v", 50_000) + `"}`
	for _, tc := range []struct {
		line           string
		status         int
		stdout, stderr string
	}{
		{fmt.Sprintf(put, "1"), 0, "created", ""},
		{fmt.Sprintf(put, "2"), 1, "", "quota_exceeded"}, // of the configuration
		{"limits set cell/a storage=1MiB", 0, "storage=1MiB\n", ""},
		{fmt.Sprintf(put, "2"), 0, "created", ""},
		{"", 0, "", ""}, // a restart
		{fmt.Sprintf(put, "3"), 0, "created", ""},
		{"status cell/a", 0, "storage=1MiB", ""},
		{"limits reset cell/a", 0, "reset 1 limit\n", ""},
		{fmt.Sprintf(put, "4"), 1, "", "quota_exceeded"},
	} {
		if tc.line == "" {
			d.stop(syscall.SIGTERM)
			d = serve(t, dir, "--config", file)
		} else {
			at(t, d.url, strings.Fields(tc.line)...).want(t, tc.status, tc.stdout, tc.stderr)
		}
	}
}
