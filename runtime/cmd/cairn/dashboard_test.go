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
	if r := runCommand(t, "", nil, "dashboard", "--json"); r.stdout != `{"url":"http://127.0.0.1:6420/dashboard/"}`+"\n" {
		t.Errorf("in JSON: %+v", r)
	}
	if r := runCommand(t, "", nil, "dashboard", "cell/%zz"); r.status != exitUsage {
		t.Errorf("a key that is malformed: %+v", r)
	}
	if runtime.GOOS == "linux" {
		if r := runCommand(t, "", map[string]string{"BROWSER": "/no/such/browser"}, "dashboard"); r.stdout != "http://127.0.0.1:6420/dashboard/\n" {
			t.Errorf("without a browser: %+v", r)
		}
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
