package where

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// A decoder would drop the first condition, or put U+FFFD for what is not Unicode: then more entries meet the filter.
func TestFiltersThatADecoderWouldChangeAreRefused(t *testing.T) {
	for _, filter := range []string{
		`{"a":1,"a":2}`, `{"a":{"$gt":1,"$gt":2}}`, `{"$or":[{"a":1},{"b":{"$eq":{"c":1,"c":2}}}]}`, "{\"a\":\"\xff\"}",
	} {
		_, err := Compile([]byte(filter), now)
		errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%s: %v", filter, err)
	}
}

func TestErrorsOfFiltersAreShort(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	for _, filter := range []string{`{"` + long + `":{}}`, `{"a":{"` + long + `":1}}`, `{"a":{"$eq":{"$` + long + `":1}}}`, `{"a":{"$regex":"` + long + `"}}`, `{"` + long + `":1,"` + long + `":1}`} {
		_, err := Compile([]byte(filter), now)
		e, ok := errors.AsType[*host.Error](err)
		errorIf(t, !ok || len(e.Message) > 1000 || len(e.Metadata["field"]) > 500, "%.40s: %.200v", filter, err)
	}
}

// The work for one entry is bounded, whatever the filter.
func TestFiltersAreBounded(t *testing.T) {
	_, err := Compile([]byte(`{"a":"`+strings.Repeat("x", MaxBytes)+`"}`), now)
	errorIf(t, host.CodeOf(err) != host.TooLarge, "%v", err)
	_, err = Compile([]byte(`{"a":{"$regex":"(x{1,30}y{1,30}){1,16}$"}}`), now)
	errorIf(t, host.CodeOf(err) != host.TooLarge, "%v", err)
	list := "[0" + strings.Repeat(",1", 999) + "]"
	filter, err := Compile(fmt.Appendf(nil, `{"$or":[{"a":{"$in":%s}}%s]}`, list, strings.Repeat(`,{"a":{"$in":`+list+`}}`, 60)), now)
	must(t, err)
	e := &Entry{Value: map[string]any{"a": json.Number("1" + strings.Repeat("0", 1<<20-1) + ".5e7")}}
	start := time.Now()
	errorIf(t, filter.Meets(e), "a number of a million digits is 0 or 1")
	if took := time.Since(start); took > time.Minute { // all comparisons take hours
		t.Error(took)
	}
}
