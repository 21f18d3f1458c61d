package node

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// unwell is a type of puppets that do not wake while broken is set.
func unwell(broken *atomic.Bool) *puppetType {
	return &puppetType{name: "p", alarm: add(1), queues: []host.Queue{{Name: "jobs"}}, wake: func(*puppet, host.Turn) error {
		if broken.Load() {
			return errors.New("does not wake")
		}
		return nil
	}}
}

// TestOperatorsVerbsWorkOnAFailedActor calls every built-in method of an actor that does not wake.
func TestOperatorsVerbsWorkOnAFailedActor(t *testing.T) {
	wakes := map[string]bool{host.ActorWake: true, host.SQLMigrate: true} // to be woken is what they ask for
	var broken atomic.Bool
	bubble(t, nil, []*puppetType{unwell(&broken)}, func(t *testing.T, g *stage) {
		for _, r := range method.All() {
			g.must(r.Name, add(1))
		}
		broken.Store(true)
		g.restart()
		for _, r := range method.All() {
			name := r.Name
			err := g.verb(name, name, nil, nil)
			if refused := host.CodeOf(err) == host.ActorFailed; refused && !wakes[name] && (r.Kind == host.Query || r.By(0) == method.Operators) {
				t.Errorf("%s: %v", name, err)
			}
			if code := host.CodeOf(err); code == host.Internal || code == host.Crashed {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
