package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestTheHTTPPageNamesEveryStatusAndOperation(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string) // the error table
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			rows[strings.TrimSpace(cells[1])] = cells[2]
		}
	}
	for _, c := range host.Codes() {
		if row := rows[fmt.Sprint(Status(c))]; !strings.Contains(row, "`"+string(c)+"`") {
			t.Errorf("the row of status %d does not have %s: %q", Status(c), c, row)
		}
	}
	for _, op := range []Operation{Call, Create, Read, Destroy, Events, Inspect, List, Health, Metrics} {
		if !strings.Contains(string(page), "`"+string(op)+"`") {
			t.Errorf("operation %s is not described", op)
		}
	}
	for _, event := range []string{EventGap, EventBye} {
		if !strings.Contains(string(page), event) {
			t.Errorf("event %s is not described", event)
		}
	}
}
