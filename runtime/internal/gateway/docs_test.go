package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// readPage reads a page of the documentation.
func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
	must(t, err)
	return string(page)
}

// tableRows are the rows of a page's tables with so many columns, by their first cell.
func tableRows(page string, columns int) map[string]string {
	rows := make(map[string]string)
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) == columns+2 {
			rows[strings.Trim(cells[1], " `")] = strings.Join(cells[2:], " ")
		}
	}
	return rows
}

func TestTheHTTPPageNamesEveryStatusAndOperation(t *testing.T) {
	page := readPage(t, "http.md")
	rows := tableRows(page, 2)
	for _, c := range host.Codes() {
		row := rows[fmt.Sprint(serve.Status(c))]
		errorIf(t, !strings.Contains(row, "`"+string(c)+"`"), "the row of status %d does not have %s: %q", serve.Status(c), c, row)
	}
	for _, op := range []serve.Operation{serve.Call, serve.Create, serve.Read, serve.Destroy, serve.Events, serve.Connect, serve.Work, serve.Follow, serve.Operate, serve.Inspect, serve.List, serve.Health, serve.Metrics, serve.OpenAPI} {
		errorIf(t, !strings.Contains(page, "`"+string(op)+"`"), "operation %s is not described", op)
	}
	for _, event := range []string{EventGap, EventBye, EventWelcome, EventEnd, EventItem, EventMessage} {
		errorIf(t, !strings.Contains(page, "`"+event+"`") && !strings.Contains(page, "event: "+event),
			"event %s is not described", event)
	}
}

func TestTheWebSocketPageHasTheCloseCodeOfEveryError(t *testing.T) {
	page := readPage(t, "websocket.md")
	rows := tableRows(page, 3)
	for _, c := range host.Codes() {
		before, after := serve.CloseCode(host.Errorf(c, "x"), false), serve.CloseCode(host.Errorf(c, "x"), true)
		row := rows[fmt.Sprint(int(before))]
		errorIf(t, before != 1008 && !strings.Contains(row, "`"+string(c)+"`"),
			"the row of %d does not have %s: %q", before, c, row)
		errorIf(t, before == 1008 && after != 1000, "%s is %d before the welcome and %d after it", c, before, after)
	}
	for _, code := range []int{1000, 1001, 1002, 1003, 1008, 1009, 1011, 1013} {
		errorIf(t, rows[fmt.Sprint(code)] == "", "the close code %d is not described", code)
	}
	for _, word := range []string{Subprotocol, tokenProtocol, fmt.Sprint(serve.DefaultConnectionCalls), "4 MiB", "10 s", "15 s", "30 s"} {
		errorIf(t, !strings.Contains(page, word), "%q is not mentioned", word)
	}
}
