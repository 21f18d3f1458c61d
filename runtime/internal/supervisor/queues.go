package supervisor

import "github.com/cairn-run/cairn/actor/host"

func (t *turn) QueueStats(queue string) (host.QueueStats, error) { return host.QueueStats{}, errNotYet }
func (r *reader) QueueStats(queue string) (host.QueueStats, error) {
	return host.QueueStats{}, errNotYet
}
func (t *turn) Enqueue(queue string, messages []host.Enqueue) ([]host.Sent, error) {
	return nil, errNotYet
}

var errNotYet = host.Errorf(host.Internal, "not built yet")
