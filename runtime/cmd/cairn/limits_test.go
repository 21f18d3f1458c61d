package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLimitsOfACellAreSetByConfigurationAndByVerb(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "cairn.toml")
	if err := os.WriteFile(file, []byte("[limits.cell]\nstorage_bytes = \"64KiB\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := serve(t, filepath.Join(dir, "data"), "--config", file)
	put := func(key string) result {
		return at(t, d.url, "call", "cell/a", "put", `{"key":["`+key+`"],"value":"`+strings.Repeat("v", 50_000)+`"}`)
	}
	if r := put("1"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := put("2"); !strings.Contains(r.stderr, "quota_exceeded") {
		t.Fatalf("beyond the quota of the configuration: %+v", r)
	}
	if r := at(t, d.url, "limits", "set", "cell/a", "storage=1MiB", "call_rate=500.5", "mailbox_count=7"); r.status != 0 || r.stdout != "storage=1MiB mailbox_count=7 call_rate=500.5\n" {
		t.Fatalf("%+v", r)
	}
	if r := put("2"); r.status != 0 {
		t.Fatalf("within the limit of the actor: %+v", r)
	}
	d.stop(syscall.SIGTERM)
	d = serve(t, filepath.Join(dir, "data"), "--config", file)
	if r := put("3"); r.status != 0 {
		t.Fatalf("after a restart: %+v", r)
	}
	if r := at(t, d.url, "status", "cell/a"); !strings.Contains(r.stdout, "storage=1MiB mailbox_count=7 call_rate=500.5") {
		t.Fatalf("%+v", r)
	}
	if r := at(t, d.url, "limits", "reset", "cell/a", "call_rate", "--json"); r.stdout != "{\"count\":1}\n" {
		t.Fatalf("%+v", r)
	}
	if r := at(t, d.url, "limits", "reset", "cell/a"); r.stdout != "reset 2 limits\n" {
		t.Fatalf("%+v", r)
	}
	if r := put("4"); !strings.Contains(r.stderr, "quota_exceeded") {
		t.Fatalf("after the reset: %+v", r)
	}
	for _, bad := range []string{"storage", "storage=2GB", "disk=1", "mailbox_count=1.5", "call_rate=x", "storage=-1"} {
		if r := at(t, d.url, "limits", "set", "cell/a", bad); r.status != 2 {
			t.Errorf("%s: %+v", bad, r)
		}
	}
	if r := at(t, d.url, "limits", "set", "cell/nobody", "storage=1MiB"); !strings.Contains(r.stderr, "not_found") {
		t.Errorf("%+v", r)
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
		dir := t.TempDir()
		file := filepath.Join(dir, "cairn.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := runCommand(t, "", nil, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--config", file); r.status == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: %+v, want %q", text, r, want)
		}
	}
}
