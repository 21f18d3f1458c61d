package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
	if err != nil {
		g.t.Fatal(err)
	}
	return page.Records
}

// operator is the origin of the calls of the tests.
var operator = audit.Origin{Channel: "http", Principal: "ada", Remote: "192.0.2.1:7", Reason: "to see"}

// operate calls a method as an operator.
func (g *stage) operate(key, name, input string) (host.Reply, error) {
	o := operator
	return g.Call(audit.With(context.Background(), &o), &host.Request{Address: pAddr(key), Method: name, Codec: host.JSON, Input: []byte(input)})
}

// audited are the methods of operators that change something, with an input each, and what must be done before: a method and its input.
var audited = map[string]trial{
	host.ActorPause: {input: `{"reason":"r"}`}, host.ActorResume: {before: [][2]string{{host.ActorPause, ``}}}, host.ActorWake: {}, host.ActorSleep: {}, host.ActorRetry: {},
	host.StateReplace: {input: `{"state":{"N":5},"version":2}`},
	host.LimitsSet:    {input: `{"call_rate":5}`}, host.LimitsReset: {before: [][2]string{{host.LimitsSet, `{"call_rate":5}`}}},
	host.QueueDelete: {input: `{"queue":"jobs","all":true}`, before: sent}, host.QueuePurge: {input: `{"queue":"jobs"}`, before: sent}, host.QueueSkip: {input: `{"queue":"jobs"}`, before: sent},
	host.QueueReplace:     {input: `{"queue":"jobs","id":1,"priority":5}`, before: sent},
	host.QueueDeadRequeue: {input: `{"queue":"jobs","all":true}`, before: skipped}, host.QueueDeadDelete: {input: `{"queue":"jobs","all":true}`, before: skipped},
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
	host.WorkflowImport: {before: begun, prepare: func(t *testing.T, g *stage, key string) string {
		reply, err := g.operate(key, host.WorkflowExport, ``)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.operate(key, host.WorkflowTerminate, ``); err != nil {
			t.Fatal(err)
		}
		var out host.WorkflowRecording
		if err := json.Unmarshal(reply.Output, &out); err != nil {
			t.Fatal(err)
		}
		input, err := json.Marshal(host.WorkflowImportInput{Recording: out.Recording, Replace: true})
		if err != nil {
			t.Fatal(err)
		}
		return string(input)
	}},
}

// An trial is how one method is tried.
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
		reply, err := g.operate(key, host.WorkflowWatch, fmt.Sprintf(`{"after":%d,"wait_ms":60000}`, after))
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			Version uint64
			Changed []struct{ ID, Kind, Status string }
		}
		if err := json.Unmarshal(reply.Output, &out); err != nil {
			t.Fatal(err)
		}
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
	tried := 0
	for _, row := range method.All() {
		test, listed := audited[row.Name]
		if row.Kind != host.Action || row.By(0) != method.Operators {
			if listed {
				t.Errorf("%s is no verb of operators", row.Name)
			}
			continue
		}
		if !listed {
			t.Errorf("%s is not tried here", row.Name)
			continue
		}
		tried++
		t.Run(row.Name, func(t *testing.T) { test.try(t, g, row) })
	}
	if tried != len(audited) {
		t.Errorf("%d of %d verbs are tried", tried, len(audited))
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
		if _, err := g.operate(key, before[0], before[1]); err != nil {
			t.Fatal(err)
		}
	}
	input := v.input
	if v.prepare != nil {
		input = v.prepare(t, g, key)
	}
	n := len(g.records(key))
	reply, err := g.operate(key, row.Name, input)
	if err != nil {
		t.Fatal(err)
	}
	all := g.records(key)
	if len(all) != n+1 {
		t.Fatalf("%d records more", len(all)-n)
	}
	r := all[0]
	if r.Verb != row.Name || r.Channel != "http" || r.Principal != "ada" || r.Remote != "192.0.2.1:7" || r.Reason != "to see" || r.Type != "p" || r.Key[0] != key || r.ActorID == "" {
		t.Errorf("%+v", r)
	}
	if r.Version != 0 && row.Name != host.SendSkip && r.Version != reply.Version && reply.Version != 0 {
		t.Errorf("the record is of version %d, the change of %d", r.Version, reply.Version)
	}
	if input != "" && !strings.Contains(string(r.Input), input[2:6]) && !strings.Contains(string(r.Input), "$size") {
		t.Errorf("the input is %s", r.Input)
	}
	if _, err := g.operate(key, row.Name, `{"no such member":1}`); err == nil {
		t.Error("a wrong input is taken")
	}
	if len(g.records(key)) != n+1 {
		t.Error("a refused verb has left a record")
	}
}

// codedPuppet is a puppet whose state is stored as CBOR, as that of real actors.
type codedPuppet struct{ *puppet }

// Load implements host.Instance.
func (p codedPuppet) Load(_ uint64, blob []byte) error {
	p.s = puppetState{}
	if blob == nil {
		return nil
	}
	return cbor.Unmarshal(blob, &p.s)
}

// Save implements host.Instance.
func (p codedPuppet) Save(dst []byte) ([]byte, error) {
	b, err := cbor.Marshal(&p.s)
	return append(dst, b...), err
}

func TestARecordHasWhatWasThereBeforeAndAfter(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	check := func(name, input, before, after string) {
		t.Helper()
		if _, err := g.operate("a", name, input); err != nil {
			t.Fatal(err)
		}
		r := g.records("a")[0]
		has := func(got host.Raw, want string) bool {
			return want == "" && got == nil || want != "" && strings.Contains(string(got), want)
		}
		if r.Verb != name || !has(r.Before, before) || !has(r.After, after) {
			t.Errorf("%s: %s, %s", r.Verb, r.Before, r.After)
		}
	}
	check(host.ActorPause, `{"reason":"one"}`, ``, `"reason":"one"`)
	check(host.ActorPause, `{"reason":"two"}`, `"reason":"one"`, `"reason":"two"`)
	check(host.ActorResume, ``, `"reason":"two"`, `{"count":1}`)
	check(host.LimitsSet, `{"call_rate":5}`, ``, `"call_rate":5`)
	check(host.LimitsSet, `{"call_burst":6}`, `{"call_rate":5}`, `"call_burst":6`)
	check(host.TokenCreate, `{"rights":["read"],"label":"l"}`, ``, `"label":"l"`)
	if r := g.records("a")[0]; strings.Contains(string(r.After), token.Prefix) {
		t.Errorf("the log has a secret: %s", r.After)
	}
	var made struct{ ID string }
	check(host.TokenCreate, `{"rights":["read","inspect"],"label":"one"}`, ``, `"label":"one"`)
	check(host.TokenCreate, `{"rights":["read","inspect"],"label":"two"}`, `"label":"one"`, `"label":"two"`)
	if err := json.Unmarshal(g.records("a")[0].After, &made); err != nil {
		t.Fatal(err)
	}
	check(host.TokenRevoke, `{"id":"`+made.ID+`"}`, `"label":"two"`, `{"count":1}`)
	check(host.SQLExec, `{"sql":"SELECT '`+strings.Repeat("x", 5000)+`'","reason":"of the input"}`, ``, `{"$size":`)
	if r := g.records("a")[0]; !strings.HasPrefix(string(r.Input), `{"$size":5`) || !strings.Contains(string(r.Input), `"$sha256":"`) {
		t.Errorf("%s", r.Input)
	}
	// The reason of the input stands for that of the call.
	if err := g.verb("a", host.ActorPause, host.PauseInput{Reason: "of the input"}, nil); err != nil {
		t.Fatal(err)
	}
	if r := g.records("a")[0]; r.Reason != "of the input" || r.Channel != "go" || r.Principal != "" {
		t.Errorf("%+v", r)
	}
}

// What the program and its actors do to a store that their type does not open is no verb, unless they say why. Neither is what the
// holder of a token does.
func TestTheProgramIsNoOperatorOfAStore(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	const put = `{"mutations":[{"op":"put","key":["a"],"value":1}]}`
	if err := g.raw(host.KVCommit, host.JSON, []byte(put)); err != nil {
		t.Fatal(err)
	}
	whole := &token.Grant{Rights: token.Read | token.Write}
	if _, err := g.granted(whole, host.KVCommit, put); err != nil {
		t.Fatal(err)
	}
	g.must("b", func(_ *puppet, h host.Turn) error {
		_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: host.KVCommit, Codec: host.JSON, Input: []byte(put)})
		return err
	})
	if all := g.records("a"); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	if _, err := g.Call(audit.WithReason(t.Context(), "why"), &host.Request{Address: pAddr("a"), Method: host.KVCommit, Codec: host.JSON, Input: []byte(put)}); err != nil {
		t.Fatal(err)
	}
	g.must("b", func(_ *puppet, h host.Turn) error {
		_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: host.ActorPause, Codec: host.JSON})
		return err
	})
	all := g.records("a")
	if len(all) != 2 || all[1].Reason != "why" || all[1].Channel != "go" || all[0].Channel != "actor" || all[0].Principal != "p/b" {
		t.Errorf("%+v", all)
	}
}

// What callers may do with a store that their type opens is the verb of an operator only with a reason.
func TestAnOpenStoreIsRecordedWithAReason(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", migrations: schema[:1], openSQL: true})
	insert := []byte(`{"sql":"INSERT INTO note (body) VALUES ('x')"}`)
	for _, ctx := range []context.Context{t.Context(), audit.With(t.Context(), &audit.Origin{Channel: "http"}), audit.WithReason(t.Context(), "why")} {
		if _, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: host.SQLExec, Codec: host.JSON, Input: insert}); err != nil {
			t.Fatal(err)
		}
	}
	if all := g.records("a"); len(all) != 1 || all[0].Reason != "why" || all[0].Verb != host.SQLExec || all[0].Version == 0 {
		t.Errorf("%+v", all)
	}
}

func TestTheLogOutlivesActors(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	o := operator
	id := g.status("a").ID
	if err := g.Destroy(audit.With(t.Context(), &o), pAddr("a")); err != nil {
		t.Fatal(err)
	}
	g.must("a", add(1))
	g.must("a", func(_ *puppet, h host.Turn) error { h.DestroySelf(); return nil })
	g.must("a", add(1))
	g.restart()
	all := g.records("a")
	if len(all) != 1 || all[0].Verb != "actor.destroy" || all[0].ActorID != id || all[0].Principal != "ada" {
		t.Errorf("%+v", all)
	}
}

func TestOldRecordsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, func(o *Options) { o.Audit.MaxAge = 90 * 24 * time.Hour })
		g.must("a", add(1))
		g.mustVerb("a", host.ActorPause, nil, nil)
		time.Sleep(60 * 24 * time.Hour)
		g.mustVerb("a", host.ActorResume, nil, nil)
		time.Sleep(31*24*time.Hour + time.Hour) // not at the time of a removal
		if all := g.records("a"); len(all) != 1 || all[0].Verb != host.ActorResume {
			t.Errorf("%+v", all)
		}
	})
}

// A dry run changes nothing, so there is nothing to record, whatever it finds.
func TestADryRunWritesNothingAndLeavesNoRecord(t *testing.T) {
	typ := &puppetType{name: "p", migrations: schema[:1]}
	g := newStage(t, nil, typ)
	g.must("a", insert("one"))
	for _, step := range [][2]string{
		{host.KVCommit, put}, {host.KVFork, `{"branch":"b"}`}, {host.KVCommit, `{"mutations":[{"op":"put","key":["a"],"value":2}]}`},
		{host.KVCommit, `{"branch":"b","mutations":[{"op":"put","key":["a"],"value":3},{"op":"put","key":["b"],"value":3}]}`},
	} {
		if _, err := g.operate("a", step[0], step[1]); err != nil {
			t.Fatal(step, err)
		}
	}
	typ.migrations = schema
	g.restart()
	dry := func(name, input, want string) {
		t.Helper()
		before, n := g.status("a"), len(g.records("a"))
		if out, err := g.operate("a", name, input); err != nil || !strings.Contains(string(out.Output), want) {
			t.Errorf("%s %s: %s, %v", name, input, out.Output, err)
		}
		if after, records := g.status("a"), g.records("a"); after.Version != before.Version || len(records) != n {
			t.Errorf("%s %s: version %d became %d, and %d records %d", name, input, before.Version, after.Version, n, len(records))
		}
	}
	dry(host.SQLMigrate, `{"dry_run":true}`, schema[1].Name)
	g.must("a", insert("two")) // it wakes, and applies the migrations
	dry(host.KVMerge, `{"dry_run":true,"source":{"branch":"b"}}`, `"ok":false`)
	dry(host.KVMerge, `{"dry_run":true,"source":{"branch":"b"},"strategy":"theirs"}`, `"put":2`)
}

func TestTheLogIsReadInPagesAndFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil, &puppetType{name: "p"}, &puppetType{name: "q"})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for field, q := range map[string]audit.Query{"until": {Until: time.Now()}, "cursor": {Before: 7}, "limit": {Limit: 1}} {
			e := wantCode(t, g.FollowAudit(ctx, q, func(*audit.Record) error { return nil }), host.InvalidArgument)
			if e.Metadata["field"] != field {
				t.Errorf("a follower with %s: %v", field, e)
			}
		}
		var followed []string
		done := make(chan error, 1)
		stop := errors.New("enough")
		go func() {
			done <- g.FollowAudit(ctx, audit.Query{Type: "p"}, func(r *audit.Record) error {
				if followed = append(followed, r.Key[0]+" "+r.Verb); len(followed) == 6 {
					return stop
				}
				return nil
			})
		}()
		synctest.Wait()
		began := time.Now()
		for i, key := range []string{"a", "b", "a"} {
			g.must(key, add(1))
			g.mustVerb(key, host.ActorPause, nil, nil)
			g.mustVerb(key, host.ActorResume, nil, nil)
			if err := g.doAt(host.Address{Type: "q", Key: []string{"a"}}, add(i)); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Call(t.Context(), &host.Request{Address: host.Address{Type: "q", Key: []string{"a"}}, Method: host.ActorSleep, Codec: host.JSON}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := <-done; err != stop || strings.Join(followed, ", ") != "a actor.pause, a actor.resume, b actor.pause, b actor.resume, a actor.pause, a actor.resume" {
			t.Errorf("followed %q, %v", followed, err)
		}
		read := func(q audit.Query) (all []string) {
			for {
				page, err := g.Audit(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Records {
					all = append(all, fmt.Sprintf("%s/%s %s", r.Type, r.Key[0], r.Verb[6:]))
				}
				if q.Before = page.Cursor; q.Before == 0 {
					return all
				}
			}
		}
		for _, c := range []struct {
			q    audit.Query
			want string
		}{
			{audit.Query{}, "q/a sleep, p/a resume, p/a pause, q/a sleep, p/b resume, p/b pause, q/a sleep, p/a resume, p/a pause"},
			{audit.Query{Limit: 2}, "q/a sleep, p/a resume, p/a pause, q/a sleep, p/b resume, p/b pause, q/a sleep, p/a resume, p/a pause"},
			{audit.Query{Type: "p", Prefix: []string{"a"}, Limit: 1}, "p/a resume, p/a pause, p/a resume, p/a pause"},
			{audit.Query{Type: "q"}, "q/a sleep, q/a sleep, q/a sleep"},
			{audit.Query{Verb: host.ActorPause, Type: "p"}, "p/a pause, p/b pause, p/a pause"},
			{audit.Query{Since: began.Add(time.Second), Until: began.Add(2 * time.Second)}, "q/a sleep, p/b resume, p/b pause"},
			{audit.Query{Type: "q", Prefix: []string{"b"}}, ""},
		} {
			if got := strings.Join(read(c.q), ", "); got != c.want {
				t.Errorf("%+v: %s", c.q, got)
			}
		}
	})
}

// TestAVerbAndItsRecordAreThereOrNot cuts the power at each sync around verbs, and compares the limits that the last record set with those
// that the actor has.
func TestAVerbAndItsRecordAreThereOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil)
		g.must("a", add(1))
		cuts := 0
		g.cuts(func(left *engine.Disk) {
			cuts++
			after := stageOn(t, left, nil)
			defer after.stop()
			st, err := after.Lookup(t.Context(), pAddr("a"))
			if err != nil {
				t.Fatal(err)
			}
			has, want := 0.0, 0.0
			if st.Limits != nil {
				has = *st.Limits.CallRate
			}
			if all := after.records("a"); len(all) > 0 {
				var set host.ActorLimits
				if err := json.Unmarshal(all[0].After, &set); err != nil || len(all) != int(*set.CallRate) {
					t.Errorf("%d records, the last has %s, %v", len(all), all[0].After, err)
				}
				want = *set.CallRate
			}
			if has != want {
				t.Errorf("the actor has the limit %v, the log %v", has, want)
			}
		}, func() {
			for n := range 6 {
				rate := float64(n + 1)
				g.mustVerb("a", host.LimitsSet, host.ActorLimits{CallRate: &rate}, nil)
			}
		})
		if cuts < 3 {
			t.Errorf("the power was cut %d times", cuts)
		}
	})
}

// What a record has on the disk is read by later versions: fields are only added.
func TestFieldsOfRecordsStay(t *testing.T) {
	t.Parallel()
	var names []string
	for f := range reflect.TypeFor[audit.Record]().NumField() {
		names = append(names, reflect.TypeFor[audit.Record]().Field(f).Name)
	}
	if got := strings.Join(names, " "); got != "ID Time Type Key ActorID Version Damaged Verb Channel Principal Remote Reason Input Before After" {
		t.Errorf("a record has %s", got)
	}
}

func TestAnArmedAlarmRunsNow(t *testing.T) {
	t.Parallel()
	rang := make(chan string, 1)
	g := newStage(t, nil, &puppetType{name: "p", alarm: func(p *puppet, _ host.Turn) error { rang <- p.rang; return nil }})
	g.must("a", func(_ *puppet, h host.Turn) error {
		return h.SetAlarm(host.Alarm{Name: "ring", Instance: "i", Due: time.Now().Add(time.Hour)})
	})
	for input, code := range map[string]host.Code{`{"name":"ring"}`: host.NotFound, `{}`: host.InvalidArgument} {
		if _, err := g.operate("a", host.AlarmRun, input); host.CodeOf(err) != code {
			t.Errorf("%s: %v", input, err)
		}
	}
	e := wantCode(t, g.raw(host.AlarmRun, host.JSON, []byte(`{"name":"ring","instance":"i"}`)), host.InvalidArgument)
	if e.Metadata["field"] != "reason" {
		t.Errorf("without a reason: %v", e)
	}
	if _, err := g.operate("a", host.AlarmRun, `{"name":"ring","instance":"i"}`); err != nil {
		t.Fatal(err)
	}
	if instance := <-rang; instance != "i" {
		t.Errorf("%q rang", instance)
	}
	if all := g.records("a"); len(all) != 1 || !strings.Contains(string(all[0].Before), `"due"`) {
		t.Errorf("%+v", all)
	}
}

func TestAMessageIsChangedUnlessAWorkerHoldsIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", queues: []host.Queue{{Name: "jobs", Backoff: []time.Duration{}}}, outside: true})
	g.must("a", add(1))
	do := func(name, input, want string) string {
		t.Helper()
		reply, err := g.operate("a", name, input)
		if err != nil || !strings.Contains(string(reply.Output), want) {
			t.Fatalf("%s %s: %s, %v", name, input, reply.Output, err)
		}
		return string(reply.Output)
	}
	refused := func(input string, code host.Code) {
		t.Helper()
		if _, err := g.operate("a", host.QueueReplace, input); host.CodeOf(err) != code {
			t.Errorf("%s: %v", input, err)
		}
	}
	do(host.QueueSend, `{"queue":"jobs","messages":[{"body":{"n":1}},{"body":2}]}`, `"id":2`)
	do(host.QueueReplace, `{"queue":"jobs","id":1,"body":{"n":10}}`, `"body":{"n":10}`)
	do(host.QueueReplace, `{"queue":"jobs","id":2,"priority":5}`, `"priority":5`)
	refused(`{"queue":"jobs","id":3,"priority":5}`, host.NotFound)
	refused(`{"queue":"none","id":1,"priority":5}`, host.NotFound)
	refused(`{"queue":"jobs","id":1,"body":"bad"}`, host.InvalidArgument)
	do(host.QueueReceive, `{"queue":"jobs","lock_ms":3600000}`, `"id":2`) // it has priority now
	refused(`{"queue":"jobs","id":2,"priority":1}`, host.FailedPrecondition)
	do(host.QueueReplace, `{"queue":"jobs","id":1,"delay_ms":3600000}`, `"state":"delayed"`)
	do(host.QueueStatsMethod, `{"queue":"jobs"}`, `"delayed":1`)
	do(host.QueueReplace, `{"queue":"jobs","id":1,"delay_ms":0}`, `"state":"pending"`)
	do(host.QueueSkip, `{"queue":"jobs"}`, `"count":1`)
	refused(`{"queue":"jobs","id":1,"delay_ms":0}`, host.InvalidArgument)
	do(host.QueueReplace, `{"queue":"jobs","id":1,"body":[11]}`, `"state":"dead"`)
	if r := g.records("a")[0]; !strings.Contains(string(r.Before), `{"n":10}`) || !strings.Contains(string(r.After), `[11]`) {
		t.Errorf("%s, %s", r.Before, r.After)
	}
	do(host.QueueDeadRequeue, `{"queue":"jobs","all":true}`, `"count":1`)
	g.restart()
	out := do(host.QueueReceive, `{"queue":"jobs","lock_ms":1000}`, `"body":[11]`)
	if !strings.Contains(out, `"id":1`) {
		t.Errorf("%s", out)
	}
}
