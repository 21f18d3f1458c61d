package supervisor

import "github.com/cairn-run/cairn/actor/host"

func (t *turn) StreamInfo(stream string) (host.StreamInfo, error) {
	return host.StreamInfo{}, errNotYet
}
func (r *reader) StreamInfo(stream string) (host.StreamInfo, error) {
	return host.StreamInfo{}, errNotYet
}
func (t *turn) StreamRead(stream string, after uint64, limit int) (host.StreamPage, error) {
	return host.StreamPage{}, errNotYet
}
func (r *reader) StreamRead(stream string, after uint64, limit int) (host.StreamPage, error) {
	return host.StreamPage{}, errNotYet
}
func (t *turn) StreamAppend(stream string, items [][]byte) (uint64, error) { return 0, errNotYet }
func (t *turn) StreamClose(stream string) error                            { return errNotYet }
