package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestDashboardOpensABrowser has a script as the browser. An address without a token is its argument.
func TestDashboardOpensABrowser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the browser is a script of a shell")
	}
	dir := t.TempDir()
	browser, seen := filepath.Join(dir, "browser"), filepath.Join(dir, "seen")
	must(t, os.WriteFile(browser, []byte("#!/bin/sh\necho \"$1\" >"+seen+"\n"), 0o700))
	r := runCommand(t, "", map[string]string{"BROWSER": browser}, "dashboard", "cell/acme")
	text, err := os.ReadFile(seen)
	errorIf(t, err != nil || r.status != exitOK || strings.TrimSpace(string(text)) != "http://127.0.0.1:6420/dashboard/#/actor/cell/acme/-/",
		"%+v: the browser got %q, %v", r, text, err)
}
