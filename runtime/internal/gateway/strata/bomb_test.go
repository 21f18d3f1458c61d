package strata

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// TestLongCommandsTakeBoundedMemory parses commands whose lists and objects have more elements than any that is done.
func TestLongCommandsTakeBoundedMemory(t *testing.T) {
	const size = 256 << 10
	many := func(one string) string { return strings.Repeat(one+",", size/(len(one)+1)-100) + one }
	var members strings.Builder
	for i := range 25_000 {
		fmt.Fprintf(&members, `"%x":0,`, i)
	}
	members.WriteString(`"x":0`)
	for body, want := range map[string]string{
		`{"command":{"KvBatchPut":{"entries":[` + many("{}") + `]}}}`:          "command.KvBatchPut.entries",
		`{"command":{"KvBatchGet":{"keys":[` + many(`""`) + `]}}}`:             "command.KvBatchGet.keys",
		`{"command":{"KvBatchDelete":{"keys":[` + many(`[]`) + `]}}}`:          "command.KvBatchDelete.keys",
		`{"command":{` + members.String() + `}}`:                               "command",
		`{"command":{"KvPut":{"key":"a","value":{` + members.String() + `}}}}`: "",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := parse([]byte(body))
		runtime.ReadMemStats(&after)
		field := ""
		if e, is := err.(*host.Error); is {
			field = e.Metadata["field"]
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16*size || field != want {
			t.Errorf("%.60s of %d bytes: %d bytes are allocated; %v", body, len(body), n, err)
		}
	}
}
