// want: of (*cart).job does not match
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnRequest(price, (*cart).job)
