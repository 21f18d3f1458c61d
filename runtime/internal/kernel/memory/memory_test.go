package memory

import (
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestAccountIsTheSumOfItsWeights(t *testing.T) {
	var a Account
	a.Limit(10, 10*Overhead)
	var w [12]Weight
	for i := range w {
		w[i].Wake(&a, 0)
		over := a.Over()
		errorIf(t, over != (i >= 10), "%d actors: over is %v", i+1, over)
	}
	for i := range w {
		w[i].Grow(&a, 100*(i+1))
	}
	n := a.Bytes.Load()
	errorIf(t, n != 12*Overhead+7800, "%d bytes", n)
	w[0].Sleep(&a)
	w[1].Sleep(&a)
	errorIf(t, a.Awake.Load() != 10 || !a.Over() || a.Enough(), "ten actors with states are not over the bound of bytes")
	for i := 2; i < len(w); i++ {
		w[i].Grow(&a, -100*(i+1))
	}
	errorIf(t, a.Over() || a.Enough(), "ten actors are at the bound, and not a tenth below it")
	w[2].Sleep(&a)
	errorIf(t, !a.Enough(), "nine actors are not enough below the bound")
	for i := 3; i < len(w); i++ {
		w[i].Sleep(&a)
	}
	errorIf(t, a.Awake.Load() != 0 || a.Bytes.Load() != 0, "%d actors and %d bytes are left", a.Awake.Load(), a.Bytes.Load())
}

var errorIf = testutil.ErrorIf
