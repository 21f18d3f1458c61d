package traffic

import "github.com/cairn-run/cairn/actor"

// Import is the durable state of one import. Position never falls.
type Import struct {
	Position int64
}

func (i *Import) advance(_ *actor.Context, to int64) (int64, error) {
	i.Position = max(i.Position, to)
	return i.Position, nil
}

func (i Import) position(*actor.ReadContext, actor.None) (int64, error) { return i.Position, nil }
