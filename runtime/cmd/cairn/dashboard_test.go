package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestDashboardPrintsItsAddress(t *testing.T) {
	for _, test := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{[]string{"dashboard"}, nil, "http://127.0.0.1:6420/dashboard/"},
		{[]string{"dashboard", "--url", "https://cairn.example/node/"}, nil, "https://cairn.example/node/dashboard/"},
		{[]string{"dashboard", "cell/a%2Fb/~-"}, nil, "http://127.0.0.1:6420/dashboard/#/actor/cell/a%2Fb/~-/-/"},
		{[]string{"dashboard", "--token", "a&b=c+d"}, nil, "http://127.0.0.1:6420/dashboard/#token=a%26b%3Dc%2Bd"},
		{[]string{"dashboard", "cell/a%2Fb"}, map[string]string{"CAIRN_TOKEN": "secret"}, "http://127.0.0.1:6420/dashboard/#token=secret&to=%2Factor%2Fcell%2Fa%252Fb%2F-%2F"},
	} {
		if r := runCommand(t, "", test.env, append(test.args, "--print")...); r.status != exitOK || r.stdout != test.want+"\n" {
			t.Errorf("%v: %+v", test.args, r)
		}
	}
	runCommand(t, "", nil, "dashboard", "--json").want(t, 0, `{"url":"http://127.0.0.1:6420/dashboard/"}`, "")
	runCommand(t, "", nil, "dashboard", "cell/%zz").want(t, exitUsage, "", "")
	if runtime.GOOS == "linux" {
		nowhere := map[string]string{"BROWSER": "/no/such/browser"}
		runCommand(t, "", nowhere, "dashboard").want(t, exitOK, "http://127.0.0.1:6420/dashboard/\n", "")
	}
}

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
	if err != nil || r.status != exitOK || strings.TrimSpace(string(text)) != "http://127.0.0.1:6420/dashboard/#/actor/cell/acme/-/" {
		t.Errorf("%+v: the browser got %q, %v", r, text, err)
	}
}
