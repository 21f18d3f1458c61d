package supervisor

import "slices"

// builtins returns the methods that every actor has, by name.
func builtins() map[string]*builtin {
	m := make(map[string]*builtin)
	for _, b := range slices.Concat(queueBuiltins(), scheduleBuiltins(), streamBuiltins(), connectionBuiltins(), controlBuiltins()) {
		m[b.name] = b
	}
	return m
}

func queueBuiltins() []*builtin { return nil }

func connectionBuiltins() []*builtin { return nil }

func controlBuiltins() []*builtin { return nil }
