package node

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// A declaration has the bounds of limits without the store, so a wrong one is refused as such and with its other faults.
func TestDeclarationsAndTheNodeAgreeOnTheBoundsOfLimits(t *testing.T) {
	for field, bounds := range map[string][2]int64{
		"ValueBytes": {1, engine.MaxValueCap}, "WriteSetBytes": {4 << 10, engine.MaxWriteSetCap}, "StorageBytes": {1, 1 << 60},
		"SQLMemoryBytes": {sqlitevfs.MinConnMemory, 0}, "SQLTemporaryBytes": {sqlitevfs.MinTemporary, 0},
		"SQLTurnBytes": {sqlitevfs.MinTurnBytes, engine.MaxWriteSetCap}, "SQLValueBytes": {sqlitevfs.MinLength, sqlitevfs.MaxLength},
	} {
		for _, v := range []int64{bounds[0] - 1, bounds[0], bounds[1], bounds[1] + 1} {
			if v <= 0 || bounds[1] == 0 && v == 1 {
				continue
			}
			var l actor.Limits
			reflect.ValueOf(&l).Elem().FieldByName(field).SetInt(v)
			declared := actor.Define(actor.NewType[struct{}]("x"), actor.Spec[struct{}]{Limits: l}).Validate()
			_, opened := limit.New(l, []*sqlite.Part{{}})
			if (declared == nil) != (opened == nil) || declared != nil && !strings.Contains(declared.Error(), "Spec.Limits."+field) {
				t.Errorf("%s %d: the declaration says %v, the node %v", field, v, declared, opened)
			}
		}
	}
}
