package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The page of an error says its status.
func TestEveryCodeHasItsStatusAndAPage(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "docs", "errors")
	for _, c := range host.Codes() {
		page, err := os.ReadFile(filepath.Join(dir, string(c)+".md"))
		if err != nil {
			t.Errorf("code %s has no page: %v", c, err)
			continue
		}
		errorIf(t, !strings.HasPrefix(string(page), "# "+string(c)+"\n"), "%s.md does not begin with its code", c)
		for _, part := range []string{fmt.Sprintf("\nHTTP status: %d\n", Status(c)), "\n## Cause\n", "\n## Remedy\n"} {
			errorIf(t, !strings.Contains(string(page), part), "%s.md lacks %q", c, strings.TrimSpace(part))
		}
	}
	if got := Status(host.ReadOnly); got != 400 { // mostly a statement of the client
		t.Errorf("read_only has the status %d", got)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	must(t, err)
	for _, p := range pages {
		if c := host.Code(strings.TrimSuffix(filepath.Base(p), ".md")); !c.Known() && c != "README" {
			t.Errorf("%s describes no code", p)
		}
	}
}

func TestRetryAfterIsAsLongAsTheErrorAsksFor(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range [][3]string{
		{"retry_at", "", "1"}, {"retry_at", "soon", "1"}, {"retry_at", "2026-01-02T03:04:00Z", "1"},
		{"retry_at", "2026-01-02T03:04:15.5Z", "11"}, {"retry_at", "2027-01-02T03:04:05Z", "3600"},
		{"retry_after_ms", "", "1"}, {"retry_after_ms", "-5", "1"}, {"retry_after_ms", "soon", "1"}, {"retry_after_ms", "0", "1"},
		{"retry_after_ms", "1000", "1"}, {"retry_after_ms", "1001", "2"}, {"retry_after_ms", "90000", "90"}, {"retry_after_ms", "99999999999999999", "3600"},
	} {
		same(t, retryAfter(host.Errorf(host.Overloaded, "x").With(c[0], c[1]), now), c[2], c[0], c[1])
	}
}
