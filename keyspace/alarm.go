package keyspace

import (
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// Alarm is the key of a pending alarm: 10 and the tuple (name, instance). An
// actor has at most one alarm per name and instance.
type Alarm struct {
	Name     string // of the alarm in the contract
	Instance string // tells alarms of one name apart; may be empty
}

// AppendAlarm appends the key of an alarm.
func AppendAlarm(dst []byte, name, instance string) []byte {
	return tuple.AppendString(AppendAlarmName(dst, name), instance)
}

// AppendAlarmName appends what the keys of all alarms of a name begin with; the
// range ends at [TupleEnd].
func AppendAlarmName(dst []byte, name string) []byte {
	return tuple.AppendString(append(dst, byte(KindAlarms)), name)
}

// ParseAlarm takes the key of an alarm apart.
func ParseAlarm(key []byte) (Alarm, error) {
	if err := checkKind(key, KindAlarms); err != nil {
		return Alarm{}, err
	}
	k, err := parseAlarm(key[1:])
	return k, within(KindAlarms, 1, err)
}

func parseAlarm(packed []byte) (k Alarm, err error) {
	d := tuple.NewDecoder(packed)
	if k.Name, err = d.String(); err != nil {
		return Alarm{}, err
	}
	if k.Instance, err = d.String(); err != nil {
		return Alarm{}, err
	}
	if err := d.End(); err != nil {
		return Alarm{}, err
	}
	return k, nil
}

// Kind returns [KindAlarms].
func (Alarm) Kind() Kind { return KindAlarms }

// Append appends the bytes of the key.
func (k Alarm) Append(dst []byte) []byte { return AppendAlarm(dst, k.Name, k.Instance) }

// String returns the form alarm("remind", "").
func (k Alarm) String() string {
	return "alarm(" + strconv.Quote(k.Name) + ", " + strconv.Quote(k.Instance) + ")"
}

func (Alarm) key() {}
