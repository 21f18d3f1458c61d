package limit

import (
	"math"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// refuses is a part that refuses a value.
type refuses int64

func (r refuses) CheckLimits(l host.Limits) error {
	if l.SQLValueBytes == int(r) {
		return &Error{Name: "sql_value_bytes", Reason: "is refused", Limit: 7, Actual: int64(r)}
	}
	return nil
}

func TestLimitsThatAreNotPossibleAreNamed(t *testing.T) {
	for name, l := range map[string]host.Limits{
		"":                 Defaults(),
		"turn_timeout":     {TurnTimeout: -1},
		"query_timeout":    {QueryTimeout: -1},
		"mailbox_count":    {MailboxCount: -1},
		"mailbox_bytes":    {MailboxBytes: -1},
		"state_bytes":      {StateBytes: -1},
		"send_attempts":    {SendAttempts: -1},
		"connections":      {Connections: -1},
		"connection_bytes": {ConnectionBytes: -1},
		"connection_grace": {ConnectionGrace: -1},
		"task_grace":       {TaskGrace: -1},
		"call_rate":        {CallRate: math.NaN()},
		"call_burst":       {CallRate: 1, CallBurst: math.MaxInt},
		"value_bytes":      {ValueBytes: -1},
		"write_set_bytes":  {WriteSetBytes: -1},
		"storage_bytes":    {StorageBytes: -1},
		"sql_value_bytes":  {SQLValueBytes: 13},
	} {
		s, err := New(l, []refuses{13})
		e, ok := err.(*Error)
		errorIf(t, name != "" && (!ok || e.Name != name) || name == "" && (err != nil || s.Limits != l), "%s: %v", name, err)
	}
	for _, l := range []host.Limits{{CallRate: -1}, {CallRate: math.Inf(1)}, {CallBurst: -1}, {CallRate: math.SmallestNonzeroFloat64}} {
		errorIf(t, CheckRate(l) == nil, "%+v is taken", l)
	}
}

func TestOperatorsWriteSetsAreNotMadeSmall(t *testing.T) {
	for _, c := range []struct{ set, want int }{{4096, engine.DefaultMaxWriteSet},
		{2 * engine.DefaultMaxWriteSet, 2 * engine.DefaultMaxWriteSet}} {
		s, err := New[refuses](host.Limits{WriteSetBytes: c.set}, nil)
		errorIf(t, err != nil || int(s.Storage.MaxWriteSet) != c.set || int(s.Roomy.MaxWriteSet) != c.want, "%+v, %v, want %+v", s, err, c)
	}
}

func TestResolveTakesWhatIsNotSet(t *testing.T) {
	got := Resolve(host.Limits{TurnTimeout: time.Hour, CallRate: 2},
		Resolve(host.Limits{TurnTimeout: time.Minute, SQLValueBytes: 9}, Defaults()))
	want := Defaults()
	want.TurnTimeout, want.CallRate, want.SQLValueBytes = time.Hour, 2, 9
	errorIf(t, got != want, "%+v, want %+v", got, want)
}

func TestOverridesGoBeforeTheLimitsOfTheType(t *testing.T) {
	var o Overrides
	count, perSecond, sql, zero := int64(3), 2.0, int64(13), int64(0)
	if s, err := Override[refuses](Defaults(), host.ActorLimits{}, nil); s != nil || err != nil {
		t.Fatal(s, err)
	}
	s, err := Override[refuses](Defaults(), host.ActorLimits{MailboxCount: &count, CallRate: &perSecond}, nil)
	fatalIf(t, err != nil || s.MailboxCount != 3 || s.Rate == nil || s.Rate.Burst != 2 ||
		s.MailboxBytes != DefaultMailboxBytes, "%+v, %v", s, err)
	for field, over := range map[string]host.ActorLimits{"sql_value_bytes": {SQLValueBytes: &sql}, "mailbox_count": {MailboxCount: &zero}} {
		_, err := Override(Defaults(), over, []refuses{13})
		if e, ok := err.(*host.Error); !ok || e.Code != host.InvalidArgument || e.Metadata["field"] != field ||
			field == "sql_value_bytes" && (e.Metadata["limit"] != "7" || e.Metadata["actual"] != "13") {
			t.Errorf("%s: %v", field, err)
		}
	}
	o.Put("a", s)
	o.Put("b", s)
	o.Put("b", nil)
	errorIf(t, o.Of([]byte("a")) != s || o.Of([]byte("b")) != nil || o.Len() != 1, "%d actors have limits of their own", o.Len())
	o.Put("a", nil)
	errorIf(t, o.Of([]byte("a")) != nil || o.Len() != 0, "%d actors have limits of their own", o.Len())
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
