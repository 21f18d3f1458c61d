package workflowtest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// A fake is a test that must fail: it keeps the messages.
type fake struct {
	testing.TB
	text     strings.Builder
	failed   bool
	cleanups []func()
}

// failing runs f as a test of its own, and returns its failure; "" if there is none.
func failing(t *testing.T, f func(t testing.TB)) string {
	t.Helper()
	fake := &fake{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, c := range fake.cleanups {
				c()
			}
		}()
		f(fake)
	}()
	<-done
	if !fake.failed {
		return ""
	}
	return fake.text.String()
}

func (f *fake) Helper()          {}
func (f *fake) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }
func (f *fake) Failed() bool     { return f.failed }
func (f *fake) Logf(format string, args ...any) {
	fmt.Fprintf(&f.text, format+"\n", args...)
}
func (f *fake) Errorf(format string, args ...any) { f.failed = true; f.Logf(format, args...) }
func (f *fake) Error(args ...any)                 { f.Errorf("%s", fmt.Sprint(args...)) }
func (f *fake) Fatalf(format string, args ...any) { f.Errorf(format, args...); runtime.Goexit() }
func (f *fake) Fatal(args ...any)                 { f.Fatalf("%s", fmt.Sprint(args...)) }

// wantText checks that a text has all of the parts.
func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		errorIf(t, !strings.Contains(text, p), "%q is not in:\n%s", p, text)
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
