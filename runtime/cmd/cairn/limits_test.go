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

func TestImpossibleSettingsOfTheConfigurationAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[limits.room]\nmailbox_count = 1\n":      `actor type "room"`,
		"[limits.cell]\nvalue_bytes = \"1TiB\"":   "cairn.toml: limits.cell.value_bytes is 1099511627776; it must be from 1 to 16777216",
		"[limits.cell]\nvalue_bytes = \"1TB\"":    `line 2: limits.cell.value_bytes: "1TB" is not`,
		"[limits.cell]\nvalue_bytes = -1\n":       "line 2: limits.cell.value_bytes: -1 is not",
		"[limits.cell]\nmailbox_count = \"x\"\n":  `line 2 (last key "limits.cell.mailbox_count")`,
		"[limits.cell]\nwrite_set_bytes = 1\n":    "cairn.toml: limits.cell.write_set_bytes is 1; it must be from 4096 to ",
		"[limits.cell]\nturn_timeout = \"-1s\"\n": "cairn.toml: limits.cell.turn_timeout is -1s; it must not be negative",
		"[limits.cell]\ncall_rate = -1\n":         "cairn.toml: limits.cell.call_rate is -1, which is not a rate",
		"[actors]\nmax_awake = -1\n":              "cairn.toml: actors.max_awake is -1; it must not be negative",
		"[actors]\nidle_timeout = \"-1s\"\n":      "cairn.toml: actors.idle_timeout is -1s; it must not be negative",
		"[gateway]\nstreams = -1\n":               "cairn.toml: gateway.streams is -1; it must not be negative",
		"[sql]\nmax_open = -1\n":                  "cairn.toml: sql.max_open is -1; it must not be negative",
		"[storage]\nmemtable_bytes = 1\n":         "cairn.toml: storage.memtable_bytes is 1; it must be 262144 or more",
		"[limits.cell]\nstorage = 1\n":            "unknown keys: limits.cell.storage",
		"[limits.cell]\nmailbox_count = -1\n":     "cairn.toml: limits.cell.mailbox_count is -1; it must not be negative",
		"memory = \"64MiB\"\n":                    "cairn.toml: memory is 67108864; it must be 134217728 or more",
	} {
		runCommand(t, "", nil, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--config", configFile(t, text)).want(t, exitUsage, "", want)
	}
}
