package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestUsageAndTopShowWhatActorsDid(t *testing.T) {
	if now := time.Now().UTC(); now.Add(5*time.Minute).Day() != now.Day() {
		t.Skip("the day may end before the test does")
	}
	dir := t.TempDir()
	d := serve(t, dir)
	at(t, d.url, "call", "cell/a/1", "put", `{"key":[1],"value":1}`)
	at(t, d.url, "call", "cell/a/1", "put", `{"key":[1],"value":2}`)
	at(t, d.url, "call", "cell/~-", "put", `{"key":[1],"value":1}`)
	want := func(pattern string, args ...string) {
		t.Helper()
		r := at(t, d.url, args...)
		errorIf(t, r.status != 0 || !regexp.MustCompile(pattern).MatchString(r.stdout+r.stderr),
			"cairn %s: %d %s%s", strings.Join(args, " "), r.status, r.stdout, r.stderr)
	}
	want(`\AACTOR.*\ncell/a/1 +2 +3 .*\ncell/~- +1 +2 .*\n\z`, "top", "--by", "turns")
	want(`\A\{"type":"cell","key":\["a","1"\],"calls":2,"turns":3,.*\}\n\z`, "top", "--by", "turns", "--limit", "1", "--json")
	day := regexp.MustCompile(`\d{4}-\d\d-\d\d`).FindString(at(t, d.url, "usage", "cell/a/1").stdout)
	want(`\ADAY +CALLS  TURNS  TIME +WRITTEN  SENT +STORED\n`+day+` +2 +3 +\S+[mµn]?s +\d+ B +\d+ B +\d+ B\n\z`, "usage", "cell/a/1")
	want(`\AACTOR +CALLS .*\ncell/~- +1 .*\ncell/a/1 +2 .*\n\z`, "usage")
	want(`\Aday,actor,calls,turns,handler_us,bytes_written,bytes_sent,bytes_stored\r\n`+day+`,cell/~-,1,2,\d+,\d+,\d+,\d+\r\n`+day+`,cell/a/1,2,3,.*\r\n\z`,
		"usage", "cell", "--csv", "--limit", "0")
	want(`\Aday,actor,calls,turns,handler_us,bytes_written,bytes_sent,bytes_stored\r\n\z`, "usage", "cell", "--prefix", "x", "--csv")
	want(`\A\{"day":"`+day+`","type":"cell","key":\["a","1"\],"calls":2,.*\}\n\z`, "usage", "cell", "--prefix", "a", "--day", day, "--json")
	want(`there are more`, "usage", "--limit", "1")
	want(`\Ano such actors`, "usage", "cell", "--prefix", "x")
	want(`did not exist then`, "usage", "cell/a/1", "--day", "2001-01-01")
	at(t, d.url, "usage", "cell/b").want(t, exitError, "", "not_found")
	d.stop(syscall.SIGTERM)
	for _, args := range []string{"usage --day x", "usage --limit -1", "usage --prefix a", "usage cell/a --prefix b", "usage --csv --json", "usage 7", "top --limit 0", "top x"} {
		at(t, d.url, strings.Fields(args)...).want(t, exitUsage, "", "")
	}
}
