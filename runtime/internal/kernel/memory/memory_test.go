package memory

import "testing"

func TestAccountIsTheSumOfItsWeights(t *testing.T) {
	var a Account
	a.Limit(10, 10*Overhead)
	var w [12]Weight
	for i := range w {
		w[i].Wake(&a, 0)
		if over := a.Over(); over != (i >= 10) {
			t.Errorf("%d actors: over is %v", i+1, over)
		}
	}
	for i := range w {
		w[i].Grow(&a, 100*(i+1))
	}
	if n := a.Bytes.Load(); n != 12*Overhead+7800 {
		t.Errorf("%d bytes", n)
	}
	w[0].Sleep(&a)
	w[1].Sleep(&a)
	if a.Awake.Load() != 10 || !a.Over() || a.Enough() {
		t.Error("ten actors with states are not over the bound of bytes")
	}
	for i := 2; i < len(w); i++ {
		w[i].Grow(&a, -100*(i+1))
	}
	if a.Over() || a.Enough() {
		t.Error("ten actors are at the bound, and not a tenth below it")
	}
	w[2].Sleep(&a)
	if !a.Enough() {
		t.Error("nine actors are not enough below the bound")
	}
	for i := 3; i < len(w); i++ {
		w[i].Sleep(&a)
	}
	if a.Awake.Load() != 0 || a.Bytes.Load() != 0 {
		t.Errorf("%d actors and %d bytes are left", a.Awake.Load(), a.Bytes.Load())
	}
}
