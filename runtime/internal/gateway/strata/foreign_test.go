package strata_test

import (
	"fmt"
	"strings"
	"testing"
)

// What one actor has in transactions leaves room to another.
func TestOneActorDoesNotTakeAllTheRoom(t *testing.T) {
	s := open(t)
	s.want(`{"Version":3}`, `{"KvPut":{"key":"a","value":1}}`)
	w := s.tok(`{"rights":["write"]}`)
	many := `{"KvBatchPut":{"entries":[` + strings.Repeat(`{"key":"a","value":1},`, 999) + `{"key":"a","value":1}]}}` // counts as half a megabyte
	refused := ""
	for i := range 9 { // which would have more than all may
		tx := w.in(fmt.Sprint("x", i))
		tx.want(fmt.Sprintf(`{"Session":"x%d"}`, i), `{"TxnBegin":{}}`)
		for code := 200; code == 200; {
			code, refused = tx.do(many)
		}
	}
	errorIf(t, !strings.Contains(refused, "the transactions of this caller take"), "the actor has room for %s", refused)
	b := s.of("room/b").in("y")
	b.want(`{"Session":"y"}`, `{"TxnBegin":{}}`)
	for range 3 {
		b.want(`{"Version":null}`, `{"KvPut":{"key":"a","value":"`+strings.Repeat("v", 500_000)+`"}}`)
	}
}
