package gateway

import (
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// OperationOf is what calling a method means to Authorize: Call for an actor's own methods and for those built-in ones that
// any caller may need, Work, Follow or Operate for the other built-in ones. openSQL says whether the actor's type lets its
// callers use SQL.
func OperationOf(method string, openSQL bool) Operation {
	switch method {
	case host.QueueReceive, host.QueueAck, host.QueueNack, host.QueueExtend, host.QueueHeld:
		return Work
	case host.StreamRead:
		return Follow
	}
	if host.OperatorMethod(method, openSQL) {
		return Operate
	}
	return Call
}

// operation is what calling a method of an actor of a type means to Authorize.
func (g *Gateway) operation(typ, method string) Operation { return OperationOf(method, g.openSQL[typ]) }

// builtin reports whether a method is one that every actor has: names of behaviors' methods have no dot.
func builtin(method string) bool { return strings.IndexByte(method, '.') >= 0 }

// maxWait is the longest that a built-in method can be asked to wait.
const maxWait = time.Minute

// waits reports whether a method may be asked to wait for something.
func waits(method string) bool {
	switch method {
	case host.QueueReceive, host.QueueHeld, host.QueueResult, host.StreamRead, host.WorkflowResult, host.WorkflowWatch:
		return true
	}
	return false
}
