package kv

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

var _ kernel.Waker = (*Part)(nil)

// Kinds implements kernel.Waker.
func (*Part) Kinds() []keyspace.WakeKind {
	return []keyspace.WakeKind{keyspace.WakeIndex, keyspace.WakeChange}
}

// Due implements kernel.Waker.
func (p *Part) Due(_ *kernel.Kernel, _ *kernel.Type, _ host.Address, row *engine.Wake,
	_ func(*kernel.Work)) *kernel.Work {
	if row.Kind == keyspace.WakeIndex {
		return &kernel.Work{Job: (*building)(row)}
	}
	return &kernel.Work{Job: &changesDue{p, row}}
}

// Wakes implements kernel.Waker.
func (*Part) Wakes(rows engine.Reader) (all []engine.Wake, err error) {
	list, err := kvrows.Indexes(rows)
	if err != nil {
		return nil, err
	}
	for _, ix := range list {
		if ix.Behind {
			all = append(all, engine.Wake{Due: ix.Due, Kind: keyspace.WakeIndex, Name: ix.Name()})
		}
	}
	err = kvrows.AllHandled(rows, func(name string, h kvrows.Handled) {
		if h.Due != 0 {
			all = append(all, engine.Wake{Due: h.Due, Kind: keyspace.WakeChange, Name: name})
		}
	})
	return all, err
}
