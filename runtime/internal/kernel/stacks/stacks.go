// Package stacks finds goroutines by a function that they are in.
package stacks

import (
	"bytes"
	"reflect"
	"runtime"
)

// most bounds what Of returns, in bytes; the last stack may exceed it.
const most = 16 << 10

// NameOf returns the name of a function as stacks have it.
func NameOf(function any) string {
	return runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name() + "("
}

// Of returns the stacks of goroutines that are somewhere in a function, by its [NameOf].
func Of(function string) string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out bytes.Buffer
	for g := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if bytes.Contains(g, []byte(function)) {
			out.Write(g)
			out.WriteString("\n\n")
		}
		if out.Len() > most {
			break
		}
	}
	return out.String()
}
