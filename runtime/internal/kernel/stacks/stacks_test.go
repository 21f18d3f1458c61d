package stacks

import (
	"strings"
	"testing"
)

func waits(begun chan<- bool, end <-chan bool) {
	begun <- true
	<-end
}

func TestOfFindsGoroutinesByTheirFunction(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	for range 2 {
		go waits(begun, end)
		<-begun
	}
	if s := Of(NameOf(waits)); strings.Count(s, "stacks.waits(") != 2 {
		t.Errorf("the stacks are %q", s)
	}
	if s := Of("package.nothing("); s != "" {
		t.Errorf("a function that nothing is in has the stacks %q", s)
	}
	close(end)
}
