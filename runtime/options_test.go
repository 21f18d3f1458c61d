package runtime

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestNATSListenWithoutAServerSaysWhatToSet(t *testing.T) {
	o := Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0"}
	o.EnsureDefaults()
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "set it to localnats.Serve") {
		t.Errorf("the error is %v", err)
	}
}

func TestEveryOperationThatAuthorizeIsAskedAboutHasAConstant(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join("internal", "gateway", "serve", "*.go"))
	must(t, err)
	var asked, options string
	for _, path := range append(sources, "options.go") {
		text, err := os.ReadFile(path)
		must(t, err)
		asked, options = asked+options, string(text)
	}
	names := regexp.MustCompile(`(?m)^\s*(?:const )?(\w+) +Operation += "`).FindAllStringSubmatch(asked, -1)
	fatalIf(t, len(names) < 14, "only %d operations were read: %v", len(names), names)
	for _, name := range names {
		errorIf(t, !regexp.MustCompile(`\bOp`+name[1]+` += serve\.`+name[1]+`\b`).MatchString(options),
			"package runtime has no Op%s", name[1])
	}
}

func TestURLsInLogsHaveNoPasswords(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://127.0.0.1:4222": "nats://127.0.0.1:4222", "localhost:4222": "localhost:4222", "nats://node:p@a:1,tls://s3cret@b:2": "nats://node:xxxxx@a:1,tls://xxxxx@b:2",
		"node:p@a:1": "xxxxx",
	} {
		got := withoutPasswords(urls)
		errorIf(t, got != want, "%s: %s, not %s", urls, got, want)
	}
}
