package supervisor

import "github.com/cairn-run/cairn/actor/host"

func (t *turn) Schedules(name string) ([]host.Schedule, error)     { return nil, errNotYet }
func (r *reader) Schedules(name string) ([]host.Schedule, error)   { return nil, errNotYet }
func (t *turn) SetSchedule(s host.Schedule) (host.Schedule, error) { return host.Schedule{}, errNotYet }
func (t *turn) CancelSchedule(name, instance string) (bool, error) { return false, errNotYet }
