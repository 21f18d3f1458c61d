package gateway

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// OperationOf returns the operation of a method's call for Authorize: Call for an actor's own
// methods and for built-in methods that any caller may need; Work, Follow or Operate for other
// built-in methods. open holds what the actor's type opens to its callers.
func OperationOf(name string, open host.Open) serve.Operation {
	if !method.BuiltIn(name) {
		return serve.Call
	}
	switch row, _ := method.Find(name); row.By(open) {
	case method.Anyone:
		return serve.Call
	case method.Workers:
		return serve.Work
	case method.Followers:
		return serve.Follow
	}
	return serve.Operate
}

// operation returns the operation of a method's call for Authorize, by actor type.
func (g *Gateway) operation(typ, method string) serve.Operation {
	return OperationOf(method, g.open[typ])
}

// maxWait is the longest wait of a built-in method.
const maxWait = method.MaxWait

// waits reports whether a method may wait for something.
func waits(name string) bool {
	row, _ := method.Find(name)
	return row.Waits
}
