package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/workflow"
	"github.com/fxamacker/cbor/v2"
)

// records returns the records of an actor, the latest first.
func (g *stage) records(key string) []audit.Record {
	g.t.Helper()
	page, err := g.Audit(g.t.Context(), audit.Query{Type: "p", Prefix: []string{key}, Exact: true, Limit: audit.MaxPage})
	must(g.t, err)
	return page.Records
}

// operator is the origin of the calls of the tests.
var operator = audit.Origin{Channel: "http", Principal: "ada", Remote: "192.0.2.1:7", Reason: "to see"}

// operate calls a method as an operator.
func (g *stage) operate(key, name, input string) (host.Reply, error) {
	o := operator
	return g.Call(audit.With(context.Background(), &o), jsonCall(key, name, input))
}

// mustOperate is operate for a call that must succeed.
func (g *stage) mustOperate(key, name, input string) host.Reply {
	g.t.Helper()
	reply, err := g.operate(key, name, input)
	must(g.t, err, name)
	return reply
}

func jsonCall(key, name, input string) *host.Request {
	return &host.Request{Address: pAddr(key), Method: name, Codec: host.JSON, Input: []byte(input)}
}

// wantRecords compares the records of an actor, the latest first, with the fields that differ in a
// test.
func (g *stage) wantRecords(key string, show func(r audit.Record) string, want ...string) {
	g.t.Helper()
	got := []string{}
	for _, r := range g.records(key) {
		got = append(got, show(r))
	}
	errorIf(g.t, !slices.Equal(got, want), "the records of %s are %q, want %q", key, got, want)
}

func byVerb(r audit.Record) string { return r.Verb }

// audited are the methods of operators that change something, with an input each, and the method
// and input of a call that must come before.
var audited = map[string]trial{
	host.ActorPause: {input: `{"reason":"r"}`}, host.ActorResume: {before: [][2]string{{host.ActorPause,
		``}}}, host.ActorWake: {}, host.ActorSleep: {}, host.ActorRetry: {},
	host.StateReplace: {input: `{"state":{"N":5},"version":2}`},
	host.LimitsSet:    {input: `{"call_rate":5}`}, host.LimitsReset: {before: [][2]string{{host.LimitsSet, `{"call_rate":5}`}}},
	host.QueueDelete: {input: `{"queue":"jobs","all":true}`, before: sent}, host.QueuePurge: {input: `{"queue":"jobs"}`,
		before: sent}, host.QueueSkip: {input: `{"queue":"jobs"}`, before: sent},
	host.QueueReplace: {input: `{"queue":"jobs","id":1,"priority":5}`, before: sent},
	host.QueueDeadRequeue: {input: `{"queue":"jobs","all":true}`,
		before: skipped}, host.QueueDeadDelete: {input: `{"queue":"jobs","all":true}`, before: skipped},
	host.ScheduleSet:     {input: `{"name":"tick","every_ms":1000}`},
	host.ScheduleCancel:  {input: `{"name":"tick"}`, before: ticking},
	host.ScheduleTrigger: {input: `{"name":"tick"}`, before: ticking},
	host.AlarmCancel:     {input: `{"name":"ring"}`}, host.AlarmRun: {input: `{"name":"ring"}`},
	host.TokenCreate: {input: `{"rights":["read"]}`}, host.TokenRevoke: {input: `{"id":"` + strings.Repeat("a", token.IDChars) + `"}`},
	host.StreamDelete: {input: `{"stream":"log"}`}, host.ConnectionClose: {input: `{"connection":"c"}`},
	host.SQLMigrate: {}, host.SQLExec: {input: `{"sql":"CREATE TABLE a (n)","reason":"r"}`},
	host.SendSkip: {input: `{"type":"p","key":["b"]}`}, host.SendDeadRequeue: {input: `{"all":true}`}, host.SendDeadDelete: {input: `{"all":true}`},
	host.KVCommit: {input: put}, host.KVSetScope: {input: `{"prefix":["a"],"max_keys":5}`},
	host.KVRemoveScope: {input: `{"prefix":["a"]}`, before: [][2]string{{host.KVSetScope, `{"prefix":["a"],"max_keys":5}`}}},
	host.KVPurge:       {before: [][2]string{{host.KVCommit, put}}},
	host.KVSetIndex:    {input: `{"prefix":["a"],"fields":[{"path":"a"}]}`}, host.KVRemoveIndex: {input: `{"prefix":["a"]}`},
	host.KVPin: {input: `{"ttl_ms":5000}`}, host.KVUnpin: {input: `{"version":1}`}, host.KVFork: {input: `{"branch":"b"}`},
	host.KVRemoveBranch: {input: `{"branch":"b"}`, before: forked}, host.KVMerge: {input: `{"source":{"branch":"b"}}`, before: forked},
	host.WorkflowCancel: {before: begun}, host.WorkflowTerminate: {before: begun}, host.WorkflowPause: {before: begun},
	host.WorkflowResume: {before: append(begun, [2]string{host.WorkflowPause, ``})},
	host.WorkflowRetry:  {before: begun, prepare: entry}, host.WorkflowRewind: {before: begun, prepare: entry},
	host.WorkflowImport: {before: begun, prepare: exported},
}

// exported ends a run, and returns the input that brings it back.
func exported(t *testing.T, g *stage, key string) string {
	var out host.WorkflowRecording
	err := json.Unmarshal(g.mustOperate(key, host.WorkflowExport, ``).Output, &out)
	g.mustOperate(key, host.WorkflowTerminate, ``)
	input, err2 := json.Marshal(host.WorkflowImportInput{Recording: out.Recording, Replace: true})
	must(t, errors.Join(err, err2))
	return string(input)
}

// A trial is how one method is tried.
type trial struct {
	input   string
	before  [][2]string
	prepare func(t *testing.T, g *stage, key string) (input string) // nil for none
}

const put = `{"mutations":[{"op":"put","key":["a"],"value":1}]}`

var (
	sent    = [][2]string{{host.QueueSend, `{"queue":"jobs","messages":[{"body":1}]}`}}
	skipped = append(sent, [2]string{host.QueueSkip, `{"queue":"jobs"}`})
	ticking = [][2]string{{host.ScheduleSet, `{"name":"tick","every_ms":10000000}`}}
	forked  = [][2]string{{host.KVCommit, put}, {host.KVFork, `{"branch":"b"}`}}
	begun   = [][2]string{{host.WorkflowStart, `{"workflow":"work","input":0}`}}
)

// stumbling is a workflow with a step that fails for good, which waits then.
var stumbling = workflow.NewFunction("work", func(ctx workflow.Context, _ int) (int, error) {
	_, _ = workflow.Step(ctx, "step", func(*workflow.StepCtx) (int, error) { return 0, workflow.Permanent(errors.New("no")) })
	_, err := workflow.Receive(ctx, "take", workflow.Inbox[int]{Name: "in"})
	return 0, err
})

// entry waits until the step has failed, and names it.
func entry(t *testing.T, g *stage, key string) string {
	for after := uint64(0); ; {
		reply := g.mustOperate(key, host.WorkflowWatch, fmt.Sprintf(`{"after":%d,"wait_ms":60000}`, after))
		var out struct {
			Version uint64
			Changed []struct{ ID, Kind, Status string }
		}
		must(t, json.Unmarshal(reply.Output, &out))
		for _, e := range out.Changed {
			if e.Kind == "step" && e.Status == "failed" {
				return `{"entry":"` + e.ID + `"}`
			}
		}
		after = out.Version
	}
}

func TestEachVerbOfOperatorsLeavesOneRecordInItsCommit(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", queues: []host.Queue{{Name: "jobs"}}, outside: true}
	g := newStage(t, func(o *Options) {
		b := o.Behaviors[0]
		b.Workflows = []host.Workflow{{
			Name: "work", Handler: "work", Program: stumbling.Program(),
			Input:  func(_ host.Codec, value []byte) ([]byte, error) { return []byte{0}, nil },
			Output: func(output []byte, _ host.Codec) ([]byte, error) { return output, nil },
		}}
		b.Queues = append(b.Queues, host.Queue{Name: "in", ByRun: true})
		b.New = func() host.Instance { return codedPuppet{&puppet{typ: typ}} }
	}, typ)
	for _, row := range method.All() {
		test, listed := audited[row.Name]
		if listed != (row.Kind == host.Action && row.By(0) == method.Operators) {
			t.Errorf("%s is tried here: %t", row.Name, listed)
		} else if listed {
			t.Run(row.Name, func(t *testing.T) { test.try(t, g, row) })
		}
	}
}

// try calls a method, and compares its record with the call.
func (v trial) try(t *testing.T, g *stage, row method.Row) {
	key := strings.ReplaceAll(row.Name, ".", "-")
	g.must(key, func(p *puppet, h host.Turn) error {
		p.s.N = 1
		return h.SetAlarm(host.Alarm{Name: "ring", Due: time.Now().Add(time.Hour)})
	})
	for _, before := range v.before {
		g.mustOperate(key, before[0], before[1])
	}
	input := v.input
	if v.prepare != nil {
		input = v.prepare(t, g, key)
	}
	n := len(g.records(key))
	reply, all := g.mustOperate(key, row.Name, input), g.records(key)
	fatalIf(t, len(all) != n+1, "%d records more", len(all)-n)
	r := all[0]
	by := audit.Origin{Channel: r.Channel, Principal: r.Principal, Remote: r.Remote, Reason: r.Reason}
	errorIf(t, by != operator || r.Verb != row.Name || r.Type != "p" || r.Key[0] != key || r.ActorID == "", "%+v", r)
	if r.Version != 0 && row.Name != host.SendSkip && r.Version != reply.Version && reply.Version != 0 {
		t.Errorf("the record is of version %d, the change of %d", r.Version, reply.Version)
	}
	if input != "" && !strings.Contains(string(r.Input), input[2:6]) && !strings.Contains(string(r.Input), "$size") {
		t.Errorf("the input is %s", r.Input)
	}
	if _, err := g.operate(key, row.Name, `{"no such member":1}`); err == nil {
		t.Error("a wrong input is taken")
	}
	errorIf(t, len(g.records(key)) != n+1, "a refused verb has left a record")
}

// codedPuppet is a puppet whose state is stored as CBOR, as that of real actors.
type codedPuppet struct{ *puppet }

func (p codedPuppet) Load(_ uint64, blob []byte) error {
	p.s = puppetState{}
	if blob == nil {
		return nil
	}
	return cbor.Unmarshal(blob, &p.s)
}

func (p codedPuppet) Save(dst []byte) ([]byte, error) {
	b, err := cbor.Marshal(&p.s)
	return append(dst, b...), err
}

// Later versions read the records on the disk: fields are only added.
func TestFieldsOfRecordsStay(t *testing.T) {
	t.Parallel()
	var names []string
	for f := range reflect.TypeFor[audit.Record]().NumField() {
		names = append(names, reflect.TypeFor[audit.Record]().Field(f).Name)
	}
	same(t, strings.Join(names, " "), "ID Time Type Key ActorID Version Damaged Verb Channel Principal Remote Reason Input Before After",
		"a record has")
}

// Changes by the program and its actors of a store that their type does not open are no verbs,
// unless they give a reason. Neither are those of the holder of a token. Changes by callers of an
// open store are verbs only with a reason.
func TestTheProgramIsNoOperatorOfAStore(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"}, &puppetType{name: "open", migrations: schema[:1], openSQL: true})
	g.must("a", add(1))
	must := func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
	fromTurn := func(ctx context.Context, name, input string) {
		t.Helper()
		g.must("b", func(_ *puppet, h host.Turn) error {
			if ctx == nil {
				ctx = h
			}
			_, err := h.Call(ctx, jsonCall("a", name, input))
			return err
		})
	}
	must(g.Call(t.Context(), jsonCall("a", host.KVCommit, put)))
	must(g.granted(&token.Grant{Rights: token.Read | token.Write}, host.KVCommit, put))
	fromTurn(nil, host.KVCommit, put)
	g.wantRecords("a", byVerb)
	must(g.Call(audit.WithReason(t.Context(), "why"), jsonCall("a", host.KVCommit, put)))
	fromTurn(nil, host.ActorPause, ``)
	fromTurn(context.Background(), host.ActorResume, ``) // it never ends; the call runs under the context of the turn
	by := func(r audit.Record) string { return r.Verb + " over " + r.Channel + " by " + r.Principal + r.Reason }
	g.wantRecords("a", by, "actor.resume over actor by p/b", "actor.pause over actor by p/b", "kv.commit over go by why")

	insert := jsonCall("a", host.SQLExec, `{"sql":"INSERT INTO note (body) VALUES ('x')"}`)
	insert.Address.Type = "open"
	must(g.Call(t.Context(), insert))
	must(g.Call(audit.With(t.Context(), &audit.Origin{Channel: "http"}), insert))
	must(g.Call(audit.WithReason(t.Context(), "why"), insert))
	page, err := g.Audit(t.Context(), audit.Query{Type: "open"})
	errorIf(t, err != nil || len(page.Records) != 1 || page.Records[0].Reason != "why" || page.Records[0].Version == 0,
		"%+v, %v", page, err)
}

func TestTheLogIsReadInPagesAndFollowed(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p"}, {name: "q"}}, func(t *testing.T, g *stage) {
		for field, q := range map[string]audit.Query{"until": {Until: time.Now()}, "cursor": {Before: 7}, "limit": {Limit: 1}} {
			wantField(t, g.FollowAudit(t.Context(), q, func(*audit.Record) error { return nil }), field)
		}
		var followed []string
		done := make(chan error, 1)
		stop := errors.New("enough")
		text := func(r audit.Record) string { return r.Type + "/" + r.Key[0] + " " + r.Verb[6:] }
		go func() {
			done <- g.FollowAudit(t.Context(), audit.Query{Type: "p"}, func(r *audit.Record) error {
				if followed = append(followed, text(*r)); len(followed) == 6 {
					return stop
				}
				return nil
			})
		}()
		synctest.Wait()
		began, q := time.Now(), host.Address{Type: "q", Key: []string{"a"}}
		for _, key := range []string{"a", "b", "a"} {
			g.must(key, add(1))
			g.mustVerb(key, host.ActorPause, nil, nil)
			g.mustVerb(key, host.ActorResume, nil, nil)
			must(t, errors.Join(g.doAt(q, add(1)), g.verbAt(q, host.ActorSleep, nil, nil)))
			time.Sleep(time.Second)
		}
		same(t, <-done, stop)
		same(t, strings.Join(followed, ", "), "p/a pause, p/a resume, p/b pause, p/b resume, p/a pause, p/a resume", "followed")
		all := "q/a sleep, p/a resume, p/a pause, q/a sleep, p/b resume, p/b pause, q/a sleep, p/a resume, p/a pause"
		for _, c := range []struct {
			q    audit.Query
			want string
		}{
			{audit.Query{}, all},
			{audit.Query{Limit: 2}, all},
			{audit.Query{Type: "p", Prefix: []string{"a"}, Limit: 1}, "p/a resume, p/a pause, p/a resume, p/a pause"},
			{audit.Query{Type: "q"}, "q/a sleep, q/a sleep, q/a sleep"},
			{audit.Query{Verb: host.ActorPause, Type: "p"}, "p/a pause, p/b pause, p/a pause"},
			{audit.Query{Since: began.Add(time.Second), Until: began.Add(2 * time.Second)}, "q/a sleep, p/b resume, p/b pause"},
			{audit.Query{Type: "q", Prefix: []string{"b"}}, ""},
		} {
			var read []string
			for more := true; more; more = c.q.Before != 0 {
				page, err := g.Audit(t.Context(), c.q)
				must(t, err)
				for _, r := range page.Records {
					read = append(read, text(r))
				}
				c.q.Before = page.Cursor
			}
			got := strings.Join(read, ", ")
			errorIf(t, got != c.want, "%+v: %s", c.q, got)
		}
	})
}

// TestAVerbAndItsRecordAreThereOrNot cuts the power at each sync around verbs, and compares the
// limits that the last record set with the ones of the actor.
func TestAVerbAndItsRecordAreThereOrNot(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		cuts := 0
		g.cuts(func(left *engine.Disk) {
			cuts++
			after := stageOn(t, left, nil)
			defer after.stop()
			has, logged := 0.0, 0.0
			if l := after.status("a").Limits; l != nil {
				has = *l.CallRate
			}
			all := after.records("a")
			if len(all) > 0 {
				var set host.ActorLimits
				must(t, json.Unmarshal(all[0].After, &set))
				logged = *set.CallRate
			}
			errorIf(t, has != logged || float64(len(all)) != logged,
				"the actor has the limit %v, the last of %d records %v", has, len(all), logged)
		}, func() {
			for n := range 6 {
				rate := float64(n + 1)
				g.mustVerb("a", host.LimitsSet, host.ActorLimits{CallRate: &rate}, nil)
			}
		})
		errorIf(t, cuts < 3, "the power was cut %d times", cuts)
	})
}

func TestTextThatIsNotUTF8DoesNotSpoilTheLog(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	o := operator
	o.Principal, o.Remote = "a\xffda", "\xff"
	call := func(o audit.Origin) error {
		_, err := g.Call(audit.With(t.Context(), &o), jsonCall("a", host.ActorPause, ``))
		return err
	}
	must(t, call(o))
	o.Reason = "\xff"
	wantCode(t, call(o), host.InvalidArgument)
	must(t, g.Destroy(audit.With(t.Context(), &o), pAddr("a")))
	g.wantRecords("a", func(r audit.Record) string { return r.Verb + r.Reason }, "actor.destroy\uFFFD", "actor.pauseto see")
}

// Verbs without a commit are recorded before they begin, so that the record is there regardless of
// how the call ends.
func TestAVerbWhoseCallerLeavesIsRecorded(t *testing.T) {
	slow := func(*puppet, host.Turn) error { time.Sleep(time.Second); return nil }
	bubble(t, nil, []*puppetType{{name: "p", wake: slow, sleep: slow}}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		hasty := func(name string, state host.State) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := g.Call(ctx, jsonCall("a", name, ``))
			wantCode(t, err, host.DeadlineExceeded)
			r := g.records("a")[0]
			errorIf(t, r.Verb != name, "%s: %+v", name, r)
			time.Sleep(2 * time.Second)
			st := g.status("a")
			errorIf(t, st.State != state, "%s: %s", name, st.State)
		}
		hasty(host.ActorSleep, host.Asleep)
		hasty(host.ActorWake, host.Awake)
		g.wantRecords("a", byVerb, host.ActorWake, host.ActorSleep)
	})
}

func TestADamagedRecordIsNamedAndSkipped(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	g.mustVerb("a", host.ActorPause, nil, nil)
	err := g.store.AppendAudit(g.Identity(pAddr("a")), []byte{1, 0xFF})
	must(t, errors.Join(err, g.store.AppendAudit(g.Identity(pAddr("b")), nil)))
	g.mustVerb("a", host.ActorResume, nil, nil)
	text := func(all []audit.Record) (s string) {
		for _, r := range all {
			s += fmt.Sprintf("%s/%s %s%v ", r.Type, r.Key, r.Verb, r.Damaged)
		}
		return s
	}
	for q, want := range map[*audit.Query]string{
		{}: "p/[a] actor.resumefalse p/[b] true p/[a] true p/[a] actor.pausefalse ",
		{Type: "p", Prefix: []string{"a"},
			Exact: true}: "p/[a] actor.resumefalse p/[a] true p/[a] actor.pausefalse ",
		{Type: "p", Prefix: []string{"a"}, Verb: host.ActorPause}:              "p/[a] true p/[a] actor.pausefalse ",
		{Type: "p", Prefix: []string{"c"}}:                                     "",
		{Type: "p", Prefix: []string{"b"}, Exact: true, Verb: "actor.destroy"}: "p/[b] true ",
	} {
		page, err := g.Audit(t.Context(), *q)
		got := text(page.Records)
		errorIf(t, err != nil || got != want, "%+v: %s, %v; want %s", q, got, err, want)
	}
	var followed []audit.Record
	err = g.FollowAudit(t.Context(), audit.Query{After: 1}, func(r *audit.Record) error {
		if followed = append(followed, *r); len(followed) == 4 {
			return errors.New("enough")
		}
		return nil
	})
	same(t, text(followed), "p/[a] actor.pausefalse p/[a] true p/[b] true p/[a] actor.resumefalse ", err)
}

// An actor that destroys another one is named, in a turn or a task, with any context.
func TestADestructionNamesTheActorThatMakesIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, under := range []context.Context{context.Background(), ctx, audit.WithReason(ctx, "why"), nil} {
		g.must("a", add(1))
		g.must("b", func(_ *puppet, h host.Turn) error {
			if under == nil {
				under = h
			}
			return h.Destroy(under, pAddr("a"))
		})
	}
	done := make(chan error)
	for _, under := range []context.Context{context.Background(), ctx} {
		g.must("a", add(1))
		g.must("b", goes("task", func(task host.Task) error { done <- task.Destroy(under, pAddr("a")); return nil }))
		must(t, <-done)
	}
	by := func(r audit.Record) string {
		return strings.Join([]string{r.Verb, r.Channel, r.Principal, r.Reason}, " ")
	}
	mine := "actor.destroy actor p/b "
	g.wantRecords("a", by, mine, mine, mine, mine+"why", mine, mine)
}

// A record with a future time shows the time that the clock had. It hides no later record, is not
// shown as if it were new, and is removed when the records after it are.
func TestAClockThatWasAheadSpoilsNoRecord(t *testing.T) {
	disk := engine.NewDisk()
	const day = 24 * time.Hour
	life := func(later time.Duration, f func(t *testing.T, g *stage)) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(later)
			f(t, stageOn(t, disk, nil, &puppetType{name: "p"}))
		})
	}
	life(30*365*day, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.mustVerb("a", host.ActorPause, nil, nil)
	})
	life(day, func(t *testing.T, g *stage) {
		began := time.Now()
		followed := make(chan audit.Record)
		go g.FollowAudit(t.Context(), audit.Query{}, func(r *audit.Record) error { followed <- *r; return errors.New("enough") })
		synctest.Wait()
		time.Sleep(time.Hour)
		g.mustVerb("a", host.ActorResume, nil, nil)
		if r := <-followed; r.Verb != host.ActorResume || !r.Time.Equal(began.Add(time.Hour)) {
			t.Errorf("%+v", r)
		}
		all := g.records("a")
		errorIf(t, len(all) != 2 || all[1].ID >= all[0].ID || all[1].Time.Year() < 2029, "%+v", all)
		for q, want := range map[*audit.Query]int{{Since: began}: 1, {Until: began.Add(time.Hour)}: 1,
			{Until: began.Add(day)}: 2, {Since: began, Until: began.Add(time.Minute)}: 0} {
			page, err := g.Audit(t.Context(), *q)
			errorIf(t, err != nil || len(page.Records) != want, "%+v: %+v, %v", q, page, err)
		}
		time.Sleep(91 * day)
		if all := g.records("a"); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}
