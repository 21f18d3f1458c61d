package cell_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/runtime/cell"
)

func TestCountersAgreeWithAModel(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		random := rand.New(rand.NewPCG(1, 2))
		model := make(map[string]*big.Int)
		for range 300 {
			key, op := fmt.Sprintf(`["%d"]`, random.IntN(5)), []string{"sum", "min", "max"}[random.IntN(3)]
			n := new(big.Int).Lsh(big.NewInt(random.Int64()-random.Int64()), uint(random.IntN(100)))
			old := model[key]
			switch {
			case old == nil, op == "min" && n.Cmp(old) < 0, op == "max" && n.Cmp(old) > 0:
				model[key] = n
			case op == "sum":
				model[key] = new(big.Int).Add(old, n)
			}
			out := call(t, h, "atomic", fmt.Sprintf(`{"mutations":[{"op":%q,"key":%s,"value":%s}]}`, op, key, n))
			if !strings.Contains(out, `"results":[{"value":`+model[key].String()+`}]`) {
				t.Fatalf("%s %s of %s: %s, want %s", op, n, old, out, model[key])
			}
		}
		h.Crash()
		for key, want := range model {
			if f := get(t, h, key); string(f.Value) != want.String() {
				t.Errorf("%s is %s after a crash, want %s", key, f.Value, want)
			}
		}
	}, cell.Definition())
}
