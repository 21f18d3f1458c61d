package gateway

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// OperationOf is what calling a method means to Authorize: Call for an actor's own methods and for
// the built-in methods that any caller may need, Work, Follow or Operate for the other built-in
// methods. open is what the actor's type opens to its callers.
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

// operation is what calling a method of an actor of a type means to Authorize.
func (g *Gateway) operation(typ, method string) serve.Operation {
	return OperationOf(method, g.open[typ])
}

// maxWait is the longest that a built-in method can be asked to wait.
const maxWait = method.MaxWait

// waits reports whether a method may be asked to wait for something.
func waits(name string) bool {
	row, _ := method.Find(name)
	return row.Waits
}
