package gateway

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// OperationOf is what calling a method means to Authorize: Call for an actor's own methods and for those built-in ones that
// any caller may need, Work, Follow or Operate for the other built-in ones. openSQL says whether the actor's type lets its
// callers use SQL.
func OperationOf(method string, openSQL bool) serve.Operation {
	switch method {
	case host.QueueReceive, host.QueueAck, host.QueueNack, host.QueueExtend, host.QueueHeld:
		return serve.Work
	case host.StreamRead:
		return serve.Follow
	}
	if host.OperatorMethod(method, openSQL) {
		return serve.Operate
	}
	return serve.Call
}

// operation is what calling a method of an actor of a type means to Authorize.
func (g *Gateway) operation(typ, method string) serve.Operation {
	return OperationOf(method, g.openSQL[typ])
}

// waits reports whether a method may be asked to wait for something.
func waits(method string) bool {
	switch method {
	case host.QueueReceive, host.QueueHeld, host.QueueResult, host.StreamRead, host.WorkflowResult, host.WorkflowWatch:
		return true
	}
	return false
}
