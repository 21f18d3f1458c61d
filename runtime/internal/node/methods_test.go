package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/timed"
)

// faultyInputs are inputs of built-in methods that are wrong in one member, and the member. A
// method without an entry takes no input, or none that can be wrong by itself.
var faultyInputs = map[string]map[string]string{
	host.QueueSend: {
		`{"messages":[]}`: "queue", `{"queue":"a.b","messages":[{"body":1}]}`: "queue", `{"queue":"q","queue":"q"}`: "queue",
		`{"queue":"jobs","messages":[{"body":1,"delay_ms":-1}]}`: "messages[0].delay_ms", `{"queue":"jobs","messages":[{"body":1,"ttl_ms":0}]}`: "messages[0].ttl_ms",
		`{"queue":"jobs","messages":[{"body":1},{"body":1,"priority":9999}]}`:              "messages[1].priority",
		`{"queue":"jobs","messages":[{"body":1},{"body":1,"keys_if_undelivered":[[{}]]}]}`: "messages[1].keys_if_undelivered[0]",
		`{"queue":"jobs","messages":[{"body":1,"body":2}]}`:                                "messages[0].body",
		`{"queue":7}`: "queue", `{"queue":"jobs","messages":[{"body":1},{"body":1,"delay_ms":"x"}]}`: "messages[1].delay_ms", `{"queue":"jobs","x":1}`: "x", `{"queue":"jobs","":1}`: `""`,
		`{"queue":"jobs"}`: "messages", `{"queue":"jobs","messages":[{"body":1,"backoff_ms":[1,-1]}]}`: "messages[0].backoff_ms[1]",
	},
	host.QueueReceive: {
		`{"queue":""}`: "queue", `{"queue":"jobs","limit":0}`: "limit", `{"queue":"jobs","limit":1001}`: "limit", `{"queue":"jobs","lock_ms":0}`: "lock_ms",
		`{"queue":"jobs","lock_ms":2592000001}`: "lock_ms", `{"queue":"jobs","wait_ms":60001}`: "wait_ms", `{"queue":"jobs","wait_ms":-1}`: "wait_ms",
		`{"queue":"jobs","l\u0069mit":0}`: "limit",
	},
	host.QueueAck:         {`{"queue":"a b"}`: "queue"},
	host.QueueNack:        {`{"queue":"a b"}`: "queue", `{"queue":"jobs","receipts":["x"],"delay_ms":-1}`: "delay_ms"},
	host.QueueExtend:      {`{"queue":"a b"}`: "queue", `{"queue":"jobs","lock_ms":2592000001}`: "lock_ms"},
	host.QueueHeld:        {`{"queue":"a b"}`: "queue", `{"queue":"jobs","wait_ms":-1}`: "wait_ms"},
	host.QueueResult:      {`{"queue":"a b"}`: "queue", `{"queue":"jobs","wait_ms":-1}`: "wait_ms"},
	host.QueueStatsMethod: {`{"queue":"a b"}`: "queue"},
	host.QueuePeek:        {`{"queue":"a b"}`: "queue", `{"queue":"jobs","limit":0}`: "limit", `{"queue":"jobs","limit":1001}`: "limit"},
	host.QueueDeadList:    {`{"queue":"a b"}`: "queue", `{"queue":"jobs","limit":0}`: "limit"},
	host.QueueDelete:      {`{"queue":"jobs"}`: "ids"},
	host.QueueReplace: {
		`{}`: "queue", `{"queue":"jobs","id":1,"priority":1001}`: "priority", `{"queue":"jobs","id":1,"delay_ms":-1}`: "delay_ms", `{"queue":"jobs","id":"x"}`: "id",
	},
	host.AlarmRun: {`{}`: "name", `{"name":"ring","instance":1}`: "instance"},
	host.StateReplace: {
		`{"version":0}`: "state", `{"state":{}}`: "version", `{"state":{"a":1,"a":2},"version":0}`: "state.a", `{"state":{"a":{"$x":1}},"version":0}`: "state.a", `{"state":1,"version":-1}`: "version",
	},
	host.QueueDeadRequeue: {`{"queue":"jobs"}`: "ids"},
	host.QueueDeadDelete:  {`{"queue":"jobs","all":true,"ids":[1]}`: "ids"},
	host.ScheduleSet: {
		`{"name":"a.b","every_ms":1000}`: "name", `{"every_ms":1000}`: "name", `{"name":"tick","every_ms":0}`: "every_ms", `{"name":"tick","every_ms":5}`: "every_ms",
		`{"name":"tick","every_ms":1000,"catch_up":0}`: "catch_up", `{"name":"tick","every_ms":1000,"keep_runs":0}`: "keep_runs",
		`{"name":"tick","cron":"61 * * * *"}`: "cron", `{"name":"tick","cron":"@daily","zone":"Mars"}`: "zone", `{"name":"tick","every_ms":1000,"missed":"x"}`: "missed",
		`{"name":"tick","at":"tomorrow"}`: "at", `{"name":"tick","at":7}`: "at",
		`{"name":"tick"}`: "cron", `{"name":"tick","cron":"@daily","every_ms":1000}`: "every_ms", `{"name":"tick","cron":"@daily","at":"2099-01-01T00:00:00Z"}`: "at",
		`{"name":"tick","every_ms":1000,"at":"2099-01-01T00:00:00Z"}`: "at", `{"name":"tick","every_ms":1000,"instance":1}`: "instance", `{"name":1}`: "name",
		`{"name":"tick","cron":1}`: "cron", `{"name":"tick","cron":"@daily","zone":1}`: "zone", `{"name":"tick","every_ms":1000,"missed":1}`: "missed",
		`{"name":"tick","every_ms":"x"}`: "every_ms", `{"name":"tick","X":1}`: "X",
	},
	host.KVWatch: {
		`{"keys":[]}`: "keys", `{"keys":[{"key":["a"]},{"key":[]}]}`: "keys[1].key", `{"keys":[{"key":["a"]}],"wait_ms":60001}`: "wait_ms",
		`{"keys":[{"key":["a"],"version":-1}]}`: "keys[0].version", `{"keys":[{"key":["a"]}],"life":"x"}`: "life",
	},
	host.KVFeed: {
		`{"prefixes":[["a"],null]}`: "prefixes[1]", `{"prefixes":[[{}]]}`: "prefixes[0][0]", `{"after":-1}`: "after", `{"limit":0}`: "limit", `{"wait_ms":60001}`: "wait_ms",
		`{"life":"x"}`: "life",
	},
	host.KVScopes: {`{"limit":0}`: "limit", `{"cursor":"?"}`: "cursor", `{"prefix":[null]}`: "prefix[0]"},
	host.KVGroups: {`{}`: "prefix", `{"prefix":[],"limit":1001}`: "limit", `{"prefix":[],"cursor":"?"}`: "cursor"},
	host.KVSetScope: {`{}`: "prefix", `{"prefix":[],"max_keys":-1}`: "max_keys",
		`{"prefix":[],"log_bytes":5}`: "log_bytes", `{"prefix":[],"info":{"a":1,"a":2}}`: "info.a", `{"prefix":[[1]]}`: "prefix[0]"},
	host.KVHistory:      {`{}`: "key", `{"key":["a"],"limit":0}`: "limit", `{"key":[[1]]}`: "key[0]"},
	host.KVPin:          {`{"ttl_ms":0}`: "ttl_ms", `{"ttl_ms":86400001}`: "ttl_ms"},
	host.KVUnpin:        {`{}`: "version"},
	host.KVFork:         {`{}`: "branch"},
	host.KVBranches:     {`{"branch":"a"}`: "branch"},
	host.KVRemoveBranch: {`{}`: "branch"},
	host.KVDiff: {
		`{"from":{},"to":{"at":9007199254740991}}`: "to.at", `{"from":{"time":"2026-01-02T03:04:05Z"},"to":{}}`: "from.time", `{"cursor":"?"}`: "cursor", `{"limit":0}`: "limit",
		`{"prefix":[null]}`: "prefix[0]",
	},
	host.KVMerge: {
		`{"source":{}}`: "base", `{"source":{},"base":{"at":9007199254740991}}`: "base.at", `{"source":{"time":"2026-01-02T03:04:05Z"},"base":{}}`: "source.time",
		`{"source":{},"base":{},"strategy":"mine"}`: "strategy", `{"source":{},"base":{},"keys":[["a"],[]]}`: "keys[1]", `{"source":{},"base":{},"keys":[["a"]],"prefix":[]}`: "keys",
	},
	host.TokenCreate: {
		`{}`: "rights", `{"rights":["read","x"]}`: "rights[1]", `{"rights":["watch"]}`: "rights", `{"rights":["read"],"prefix":[[1]]}`: "prefix[0]",
		`{"rights":["read"],"prefix":["a",{"$uuidv7":true}]}`: "prefix[1]", `{"rights":["read"],"ttl_ms":0}`: "ttl_ms", `{"rights":["read"],"label":1}`: "label",
	},
	host.TokenRevoke: {`{}`: "id", `{"id":"cairn_x"}`: "id"},
	host.KVSetIndex: {
		`{"fields":[{"path":"a"}]}`: "prefix", `{"prefix":[]}`: "fields", `{"prefix":[],"fields":[{"path":"a"},{"path":""}]}`: "fields[1].path",
		`{"prefix":[],"fields":[{"path":"a","weight":"x"}]}`: "fields[0].weight", `{"prefix":[],"fields":[{"path":"a","weight":1001}]}`: "fields[0].weight",
		`{"prefix":[],"fields":[{"path":"a"}],"tokenizer":"icu"}`: "tokenizer",
	},
	host.KVRemoveIndex: {`{}`: "prefix", `{"prefix":[[1]]}`: "prefix[0]"},
	host.KVIndexes:     {`{"prefix":[]}`: "prefix"},
	host.KVSearch: {
		`{"query":"a"}`: "prefix", `{"prefix":[]}`: "query", `{"prefix":[],"query":"\"a"}`: "query", `{"prefix":[],"query":"-a"}`: "query", `{"prefix":[],"query":"a","limit":0}`: "limit",
		`{"prefix":[],"query":"a","snippet":65}`: "snippet", `{"prefix":[],"query":"a","cursor":"?"}`: "cursor", `{"prefix":[],"query":"a","where":{}}`: "where",
	},
	host.KVPurge: {`{"x":1}`: "x"},
	host.KVRender: {
		`{}`: "template", `{"template":"{{"}`: "template", `{"template":"{{print 1}}"}`: "template", `{"template":"","prefix":[null]}`: "prefix[0]", `{"template":"","strict":1}`: "strict",
	},
	host.KVRemoveScope: {`{}`: "prefix", `{"prefix":[{}]}`: "prefix[0]"},
	host.KVGet: {`{}`: "key", `{"key":[]}`: "key", `{"key":"a"}`: "key", `{"key":["a",null]}`: "key[1]",
		`{"key":["a"],"time":7}`: "time"},
	host.KVGetMany: {`{"keys":[["a"],[]]}`: "keys[1]", `{"keys":1}`: "keys"},
	host.KVList: {`{"limit":0}`: "limit", `{"limit":1001}`: "limit", `{"cursor":"?"}`: "cursor",
		`{"where":{}}`: "where", `{"prefix":[null]}`: "prefix[0]", `{"prefix":[1],"start":[2]}`: "prefix", `{"time":"now"}`: "time", `{"at":1,"time":"2026-01-02T03:04:05Z"}`: "time"},
	host.KVCount:  {`{"end":[]}`: "end", `{"start":7}`: "start", `{"cursor":"?"}`: "cursor"},
	host.KVSample: {`{"n":0}`: "n", `{"n":1001}`: "n", `{"seed":-1}`: "seed", `{"end":[]}`: "end", `{"cursor":"?"}`: "cursor"},
	host.KVListMany: {`{"lists":[{},{"limit":1001}]}`: "lists[1].limit", `{"lists":[{"cursor":"?"}]}`: "lists[0].cursor",
		`{"lists":[{},{"end":[{"$raw":""}]}]}`: "lists[1].end", `{"lists":1}`: "lists"},
	host.KVCommit: {
		`{"checks":[{"key":["a"]}]}`: "checks[0].version", `{"checks":[{"key":[],"version":1}]}`: "checks[0].key", `{"mutations":[{"op":"x","key":["a"]}]}`: "mutations[0].op",
		`{"mutations":[{"op":"delete","key":["a"]},{"op":"put","key":["a"]}]}`: "mutations[1].value", `{"mutations":[{"op":"put","key":["a"],"value":1,"encoding":"x"}]}`: "mutations[0].encoding",
		`{"mutations":[{"op":"touch","key":["a"]}]}`: "mutations[0].ttl_ms", `{"mutations":[{"op":"delete_range"}]}`: "mutations[0].prefix", `{"mutations":[{"op":"put","value":1}]}`: "mutations[0].key",
		`{"mutations":[{"op":"sum","key":["a"],"value":1,"min":"x"}]}`: "mutations[0].min", `{"mutations":[{"op":"put","key":["a"],"value":{"x":1,"x":2}}]}`: "mutations[0].value.x",
		`{"checks":[{"digest":"?"}]}`: "checks[0].digest", `{"checks":[{"digest":"AAAA","key":["a"]}]}`: "checks[0].key", `{"checks":[{"key":["a"],"value":1,"encoding":"x"}]}`: "checks[0].encoding",
		`{"checks":[{"key":["a",{"$uuidv7":true}],"version":1}]}`: "checks[0].key[1]", `{"mutations":[{"op":"put","key":[{"$uuidv7":1}],"value":1}]}`: "mutations[0].key[0]",
		`{"mutations":[{"op":"delete_range","prefix":[],"where":{}}]}`: "mutations[0].where", `{"mutations":[{"op":"delete_range","where":{"a":1}}]}`: "mutations[0].prefix",
		`{"mutations":[{"op":"delete_range","prefix":["a"],"where":{"a":{"$x":1}}}]}`: "mutations[0].where.a.$x", `{"mutations":[{"op":"append","key":["a"],"value":[],"max_len":0}]}`: "mutations[0].max_len",
		`{"mutations":[{"op":"delete","key":["a"],"literal":true}]}`: "mutations[0].literal", `{"mutations":[{"op":"put","key":["a"],"value":1,"where":{"a":1}}]}`: "mutations[0].where",
		`{"mutations":[{"op":"put","key":["a"],"value":1,"ttl_ms":1,"expires":"2100-01-01T00:00:00Z"}]}`: "mutations[0].expires", `{"mutations":[{"op":"put","key":["a"],"value":1,"expires":"2300-01-01T00:00:00Z"}]}`: "mutations[0].expires",
		`{"sends":[{"queue":"a.b","messages":[{"body":1}]}]}`: "sends[0].queue",
	},
	host.StreamAppend:    {`{"stream":"a.b","items":[1]}`: "stream", `{"stream":""}`: "stream"},
	host.StreamClose:     {`{"stream":"a.b"}`: "stream"},
	host.StreamDelete:    {`{}`: "stream", ``: "stream"},
	host.ScheduleCancel:  {`{}`: "name", ``: "name", `null`: "name"},
	host.ScheduleTrigger: {`{"name":""}`: "name"},
	host.ScheduleRuns:    {`{"name":null}`: "name"},
	host.QueuePurge:      {`{}`: "queue"},
	host.QueueSkip:       {`{}`: "queue"},
	host.ConnectionClose: {`{}`: "connection"},
	host.SendSkip:        {`{}`: "type", `{"type":"p","key":["a",7]}`: "key[1]"},
	host.StreamRead: {`{"stream":"a.b"}`: "stream", `{"stream":"log","limit":1001}`: "limit",
		`{"stream":"log","wait_ms":60001}`: "wait_ms", `{"stream":"log","life":"x"}`: "life"},
	host.TraceRead: {
		`{"cursor":"x"}`: "cursor", `{"trace_id":"x"}`: "trace_id", `{"limit":10001}`: "limit", `{"max_bytes":1000000000}`: "max_bytes",
		`{"start":"yesterday"}`: "start", `{"start":"9999-12-31T00:00:00Z","end":"2026-01-01T00:00:00Z"}`: "end",
	},
	host.UsageGet:       {`{"from":"x"}`: "from", `{"to":"2026-13-01"}`: "to", `{"from":"1999-12-02","to":"1999-12-01"}`: "to"},
	host.StreamList:     {`{"stream":"a.b"}`: "stream"},
	host.ConnectionList: {`{"limit":0}`: "limit", `{"limit":1001}`: "limit"},
	host.LimitsSet: {
		`{"storage_bytes":0}`: "storage_bytes", `{"value_bytes":1000000000}`: "value_bytes", `{"write_set_bytes":1}`: "write_set_bytes", `{"call_rate":-1}`: "call_rate",
		`{"mailbox_count":-1}`: "mailbox_count", `{"call_rate":0.000001,"call_burst":1000000000}`: "call_burst", `{"value_bytes":"x"}`: "value_bytes",
		`{"sql_memory_bytes":1}`: "sql_memory_bytes", `{"sql_temporary_bytes":1}`: "sql_temporary_bytes", `{"sql_turn_bytes":1}`: "sql_turn_bytes", `{"sql_value_bytes":1}`: "sql_value_bytes",
	},
	host.LimitsReset:     {`{"names":["x"]}`: "names[0]", `{"names":["call_rate","y","x"]}`: "names[1]", `{"names":[7]}`: "names[0]"},
	host.SendDeadList:    {`{"limit":0}`: "limit", `{"limit":1001}`: "limit"},
	host.SendDeadRequeue: {`{}`: "ids"},
	host.SendDeadDelete:  {`{"all":true,"ids":[1]}`: "ids"},
	host.SQLQuery: {`{"sql":""}`: "sql", `{"sql":"SELECT 1","limit":0}`: "limit",
		`{"sql":"SELECT ?","args":[[1]]}`: "args[0]", `{"sql":"SELEC"}`: "sql", `{"sql":"SELECT ?"}`: "args", `{"sql":"SELECT 1","args":[1]}`: "args"},
	host.SQLExec: {`{"sql":"SELECT 1"}`: "reason", `{"sql":"","reason":"r"}`: "sql",
		`{"sql":"SELECT 1","limit":10001,"reason":"r"}`: "limit", `{"sql":"SELEC","reason":"r"}`: "sql"},
	host.WorkflowHistory: {`{"limit":0}`: "limit"},
	host.WorkflowResult:  {`{"wait_ms":60001}`: "wait_ms"},
	host.WorkflowWatch:   {`{"wait_ms":60001}`: "wait_ms"},
	host.WorkflowImport:  {`{"recording":"eA=="}`: "recording"},
}

// faultless are the methods without such an input.
var faultless = []string{
	host.ActorPause, host.ActorResume, host.ActorWake, host.ActorSleep, host.ActorRetry, host.ActorWhy,
	host.ScheduleList, host.AlarmList, host.AlarmCancel, host.SQLMigrate, host.SQLStatus, host.WorkflowStart, host.WorkflowStatus, host.WorkflowCancel,
	host.WorkflowTerminate, host.WorkflowPause, host.WorkflowResume, host.WorkflowRetry, host.WorkflowRewind, host.WorkflowExport, host.TokenList, host.StateGet,
}

func TestTheFieldOfAnErrorIsTheMemberOfTheInput(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", queues: []host.Queue{{Name: "jobs"}}, outside: true})
	g.must("a", add(1))
	for name := range kernel.PartOf[*call.Router](g.Kernel).Methods {
		errorIf(t, faultyInputs[name] == nil && !slices.Contains(faultless, name), "%s has no faulty input here", name)
	}
	for method, inputs := range faultyInputs {
		for in, field := range inputs {
			_, err := g.operate("a", method, in)
			e := wantCode(t, err, host.InvalidArgument)
			errorIf(t, e.Metadata["field"] != field || strings.Contains(e.Message, "]: ") && !strings.Contains(e.Message, field+": "),
				"%s %s: %v names the field %q, want %q", method, in, e, e.Metadata["field"], field)
		}
	}
	// Errors for too large inputs also have the excess.
	for _, c := range []struct {
		method, in, field string
		limit, actual     string
	}{
		{host.QueueSend, `{"queue":"jobs","messages":[` + repeated(`{"body":1}`, 20_001) + `]}`, "messages", "1000", "20001"},
		{host.QueueAck, `{"queue":"jobs","receipts":[` + repeated(`"x"`, 5000) + `]}`, "receipts", "1000", "5000"},
		{host.QueueNack, `{"queue":"jobs","receipts":[` + repeated(`"x"`, 5000) + `]}`, "receipts", "1000", "5000"},
		{host.QueueExtend, `{"queue":"jobs","receipts":[` + repeated(`"x"`, 5000) + `]}`, "receipts", "1000", "5000"},
		{host.QueueHeld, `{"queue":"jobs","receipts":[` + repeated(`"x"`, 5000) + `]}`, "receipts", "1000", "5000"},
		{host.QueuePeek, `{"queue":"jobs","ids":[` + repeated(`7`, 5000) + `]}`, "ids", "1000", "5000"},
		{host.QueueDelete, `{"queue":"jobs","ids":[` + repeated(`7`, 5000) + `]}`, "ids", "1000", "5000"},
		{host.QueueDeadList, `{"queue":"jobs","ids":[` + repeated(`7`, 5000) + `]}`, "ids", "1000", "5000"},
		{host.QueueDeadDelete, `{"queue":"jobs","ids":[` + repeated(`7`, 5000) + `]}`, "ids", "1000", "5000"},
		{host.QueueDeadRequeue, `{"queue":"jobs","ids":[` + repeated(`7`, 5000) + `]}`, "ids", "1000", "5000"},
		{host.SendSkip, `{"type":"p","key":["` + strings.Repeat("x", 1025) + `"]}`, "key", "1024", "1025"},
		{host.SendSkip, `{"type":"p","key":[` + repeated(`"x"`, 17) + `]}`, "key", "16", "17"},
		{host.SQLQuery, `{"sql":"SELECT '` + strings.Repeat("x", 1_000_000) + `'"}`, "sql", "1000000", ""},
		{host.SQLQuery, `{"sql":"SELECT ` + strings.Repeat("(", 3000) + "1" + strings.Repeat(")", 3000) + `"}`, "sql", "", ""},
		{host.StreamAppend, `{"stream":"log","items":[` + repeated(`7`, 5000) + `]}`, "items", "1000", "5000"},
		{host.SendDeadDelete, `{"ids":[` + repeated(`7`, 5000) + `]}`, "ids", "1000", "5000"},
		{host.SQLQuery, `{"sql":"SELECT 1","args":[` + repeated(`1`, 40_000) + `]}`, "args", "32766", "40000"},
		{host.KVCommit, `{"mutations":[{"op":"put","key":["a"],"value":[` + names(1001) + `]}]}`, "mutations[0].value", "1000", "1001"},
		{host.ActorPause, `{"reason":"` + strings.Repeat("x", 1025) + `"}`, "reason", "1024", "1025"},
		{host.ConnectionClose, `{"connection":"x","reason":"` + strings.Repeat("x", 1025) + `"}`, "reason", "1024", "1025"},
		{host.SQLExec, `{"sql":"SELECT 1","reason":"` + strings.Repeat("x", 1025) + `"}`, "reason", "1024", "1025"},
		{host.ScheduleSet, `{"name":"tick","every_ms":1000,"instance":"` + strings.Repeat("x", 257) + `"}`, "instance", "256", "257"},
		{host.ScheduleSet, `{"name":"tick","cron":"` + strings.Repeat("x", 1025) + `"}`, "cron", "", "1025"},
		{host.ScheduleSet, `{"name":"tick","cron":"@daily","zone":"` + strings.Repeat("x", 1025) + `"}`, "zone", "", "1025"},
	} {
		e := wantCode(t, g.raw(c.method, host.JSON, []byte(c.in)), host.TooLarge)
		m := e.Metadata
		errorIf(t, m["field"] != c.field || c.limit != "" && m["limit"] != c.limit || c.actual != "" && m["actual"] != c.actual,
			"%s: %+v, want field %q and %s over %s", c.method, e, c.field, c.actual, c.limit)
	}
	// A type of the node reports which parameter of a list is wrong.
	for field, list := range map[string]func() error{
		"prefix": func() error { _, err := g.List(t.Context(), host.ListQuery{Prefix: []string{"a"}}); return err },
		"limit":  func() error { _, err := g.List(t.Context(), host.ListQuery{Limit: 1001}); return err },
		"cursor": func() error { _, err := g.List(t.Context(), host.ListQuery{Type: "p", Cursor: "x"}); return err },
		"state":  func() error { _, err := g.Runs(t.Context(), host.RunQuery{State: "x"}); return err },
		"reason": func() error { _, err := g.Runs(t.Context(), host.RunQuery{Reason: "x"}); return err },
	} {
		wantField(t, list(), field)
	}
	// A number of any size is shown as it was given.
	for in, method := range map[string]string{
		`{"queue":"jobs","messages":[{"body":1,"delay_ms":99999999999999999}]}`:     host.QueueSend,
		`{"queue":"jobs","messages":[{"body":1,"ttl_ms":99999999999999999}]}`:       host.QueueSend,
		`{"queue":"jobs","messages":[{"body":1,"backoff_ms":[99999999999999999]}]}`: host.QueueSend,
		`{"queue":"jobs","receipts":["x"],"delay_ms":99999999999999999}`:            host.QueueNack,
	} {
		e := wantCode(t, g.raw(method, host.JSON, []byte(in)), host.InvalidArgument)
		errorIf(t, !strings.Contains(e.Message, ": 99999999999999999 is not from 0 to 2592000000"), "%s: %v", in, e)
	}
	e := wantCode(t, g.raw(host.LimitsSet, host.JSON, []byte(`{"value_bytes":1000000000}`)), host.InvalidArgument)
	if e.Metadata["limit"] != "16777216" || e.Metadata["actual"] != "1000000000" ||
		!strings.Contains(e.Message, "value_bytes is 1000000000; it must be from 1 to 16777216") {
		t.Errorf("%+v", e)
	}
	// In CBOR the same are refused. A null is no value, as everywhere in an input.
	for method, in := range map[string]map[string]any{
		host.QueueReceive: {"queue": "jobs", "limit": 0}, host.StreamRead: {"stream": "log",
			"limit": 0}, host.SQLQuery: {"sql": "SELECT 1", "limit": 0},
	} {
		wantField(t, g.cbor("a", method, in, nil), "limit")
		in["limit"] = nil
		check(t, errors.Join(g.verb("a", method, in, nil), g.cbor("a", method, in, nil)), method)
	}
	// Zeros of Go callers are left out, and mean the defaults.
	for method, in := range map[string]any{
		host.QueueReceive: host.QueueReceiveInput{Queue: "jobs"}, host.StreamRead: host.StreamReadInput{Stream: "log"}, host.SQLQuery: host.SQLInput{SQL: "SELECT 1"},
		host.QueuePeek: host.QueueListInput{Queue: "jobs"}, host.ConnectionList: host.ConnectionListInput{}, host.SendDeadList: host.SendListInput{},
		host.ScheduleSet: host.Schedule{Name: "tick", Every: 1000},
	} {
		check(t, g.verb("a", method, in, nil), method)
	}
}

// repeated returns n items of a list.
func repeated(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }

// wantField wants an error of an input that is wrong in a field.
func wantField(t testing.TB, err error, field string) {
	t.Helper()
	e := wantCode(t, err, host.InvalidArgument)
	errorIf(t, e.Metadata["field"] != field, "%v names the field %q, want %q", e, e.Metadata["field"], field)
}

// raw calls a method of actor "a".
func (g *stage) raw(method string, codec host.Codec, in []byte) error {
	_, err := g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: method, Codec: codec, Input: in})
	return err
}

// A part that binds a method without a row keeps the node from starting, or does not compile.
// Clients over NATS read the kinds, and repeat queries.
func TestEachRowOfTheTableIsBoundAndHasItsKind(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"})
	router := kernel.PartOf[*call.Router](g.Kernel)
	for _, r := range method.All() {
		errorIf(t, router.Methods[r.Name] == nil, "no part has the built-in method %s", r.Name)
	}
	kinds := make(map[string]host.MethodKind)
	for _, m := range g.Methods(&host.Behavior{Methods: []host.Method{{Name: "open", Kind: host.Creation}}}) {
		kinds[m.Name] = m.Kind
	}
	for name, kind := range map[string]host.MethodKind{
		"open": host.Creation, host.QueueSend: host.Action, host.QueuePeek: host.Query, host.ActorWhy: host.Query, host.SQLStatus: host.Query,
		// These run beside the actor, but change something.
		host.ActorWake: host.Action, host.ActorRetry: host.Action, host.SendSkip: host.Action, host.SQLMigrate: host.Action,
	} {
		errorIf(t, kinds[name] != kind, "%s is a %s, want %s", name, kinds[name], kind)
	}
	router.GoOffline()
	for _, r := range method.All() {
		errorIf(t, (router.Methods[r.Name] != nil) != r.Offline,
			"%s works on a store without a node: %v, want %v", r.Name, !r.Offline, r.Offline)
	}
}

// names returns placeholders with different names.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"$uuidv7":"n%d"}`, i)
	}
	return b.String()[1:]
}

// TestLookingAtAnActorDoesNotWakeIt calls each built-in method that reads on a sleeping actor. The
// ones of workers and senders wake it, and so do statements in SQL, which may need the migrations
// of a wake.
func TestLookingAtAnActorDoesNotWakeIt(t *testing.T) {
	t.Parallel()
	wakes := map[string]bool{host.QueueHeld: true, host.QueueResult: true, host.SQLQuery: true}
	inputs := map[string]string{
		host.QueuePeek: `{"queue":"jobs"}`, host.QueueDeadList: `{"queue":"jobs"}`, host.ScheduleRuns: `{"name":"tick"}`, host.StreamRead: `{"stream":"out"}`,
		host.AlarmList: "", host.ActorWhy: "", host.TokenList: "", host.SQLStatus: "", host.WorkflowStatus: "", host.WorkflowExport: "",
	}
	g := newStage(t, nil, &puppetType{name: "p", queues: []host.Queue{{Name: "jobs"}}})
	g.kv("in.x=1")
	for _, row := range method.All() {
		if row.Kind != host.Query || wakes[row.Name] {
			continue
		}
		g.mustVerb("a", host.ActorSleep, nil, nil)
		input, set := inputs[row.Name]
		if !set {
			input = `{}`
		}
		_, err := g.Call(t.Context(),
			&host.Request{Address: pAddr("a"), Method: row.Name, Codec: host.JSON, Input: []byte(input), Existing: true})
		st, lookup := g.Lookup(t.Context(), pAddr("a"))
		if lookup != nil || st.State != host.Asleep {
			t.Errorf("after %s the actor is %s, %v: %v", row.Name, st.State, lookup, err)
		}
	}
}

// unwell is a type of puppets that do not wake while broken is set.
func unwell(broken *atomic.Bool) *puppetType {
	return &puppetType{name: "p", alarm: add(1), queues: []host.Queue{{Name: "jobs"}}, wake: func(*puppet, host.Turn) error {
		if broken.Load() {
			return errors.New("does not wake")
		}
		return nil
	}}
}

// TestOperatorsVerbsWorkOnAFailedActor calls every built-in method of an actor that does not wake.
func TestOperatorsVerbsWorkOnAFailedActor(t *testing.T) {
	wakes := map[string]bool{host.ActorWake: true, host.SQLMigrate: true} // their purpose is a wake
	var broken atomic.Bool
	bubble(t, nil, []*puppetType{unwell(&broken)}, func(t *testing.T, g *stage) {
		for _, r := range method.All() {
			g.must(r.Name, add(1))
		}
		broken.Store(true)
		g.restart()
		for _, r := range method.All() {
			name := r.Name
			err := g.verb(name, name, nil, nil)
			refused := host.CodeOf(err) == host.ActorFailed
			errorIf(t, refused && !wakes[name] && (r.Kind == host.Query || r.By(0) == method.Operators), "%s: %v", name, err)
			code := host.CodeOf(err)
			errorIf(t, code == host.Internal || code == host.Crashed, "%s: %v", name, err)
		}
	})
}

// Commits without encoding take room in the mailbox like others.
func TestCommitsWithoutEncodingCountAgainstTheBytesOfTheMailbox(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *Options) { o.MaxMailboxBytes = 100_000 }, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		hold := make(chan struct{})
		go g.do("a", func(*puppet, host.Turn) error { <-hold; return nil })
		synctest.Wait()
		const calls = 10
		done := make(chan error, calls)
		for range calls {
			go func() {
				m := kv.Mutation{Op: "put", Key: kv.Key{"k"}, Value: kv.ByteString(make([]byte, 50_000)), Encoding: "bytes"}
				in := &kv.CommitInput{Mutations: []kv.Mutation{m}}
				r := &host.Request{Address: pAddr("a"), Method: host.KVCommit, Codec: host.CBOR, Value: in}
				_, err := g.Call(context.Background(), r)
				done <- err
			}()
		}
		synctest.Wait()
		close(hold)
		refused := 0
		for range calls {
			if err := <-done; host.CodeOf(err) == host.Overloaded {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		errorIf(t, refused == 0, "10 commits of 50 kB wait in 100 kB")
	})
}

// An input means the same with and without encoding. A value where none is expected is refused, and
// not ignored.
func TestInputsMeanTheSameWithoutEncoding(t *testing.T) {
	t.Parallel()
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k=1")
		call := func(method string, input []byte, value any) (host.Reply, error) {
			return g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: method, Codec: host.CBOR, Input: input, Value: value})
		}
		for _, key := range []kv.Key{
			{"k"}, {kv.Raw(mustPack(t, kv.Key{"k"}))}, {int8(1)}, {uint64(1)}, {float32(1)}, {"\xff"}, {nil}, {kv.Raw("x")}, {}, nil,
		} {
			in := kv.GetInput{Key: key}
			var encoded, local string
			input, err := wire.Output.Marshal(in)
			if err == nil {
				var reply host.Reply
				if reply, err = call(host.KVGet, input, nil); err == nil {
					encoded = fmt.Sprint(wire.Read[kv.GetOutput](host.CBOR, reply.Output).Entry != nil)
				}
			}
			reply, lerr := call(host.KVGet, nil, in.Detach())
			if lerr == nil {
				local = fmt.Sprint(reply.Value.(*kv.GetOutput).Entry != nil)
			}
			errorIf(t, local != encoded || fmt.Sprint(lerr) != fmt.Sprint(err),
				"%#v: without encoding %s, %v, with it %s, %v", key, local, lerr, encoded, err)
		}
		in := kv.GroupsInput{Prefix: kv.Key{"k"}} // they are not found
		input, _ := wire.Output.Marshal(in)
		_, encoded := call(host.KVGroups, input, nil)
		if _, local := call(host.KVGroups, nil, &in); host.CodeOf(local) != host.CodeOf(encoded) {
			t.Errorf("%v, and encoded %v", local, encoded)
		}
		_, err := call(host.KVWatch, nil, &kv.WatchInput{Keys: []kv.WatchedKey{{Key: kv.Key{"k"}}}})
		errorIf(t, err == nil || !strings.Contains(err.Error(), "as a value"), "kv.watch: %v", err)
		if _, err = call("look", nil, &kv.GetInput{Key: kv.Key{"k"}}); err == nil {
			t.Error("look takes a value")
		}
	})
}

// A caller whose context has not made its Done waits with a timer of the kernel's, which many calls
// share one after the other.
func TestCallEndsAtTheDeadlineOfAContextThatHasNoChannel(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		call := func(parent context.Context, limit, work time.Duration, asks bool) error {
			ctx := timed.Until(parent, time.Now().Add(limit))
			defer ctx.Cancel()
			start := time.Now()
			over := make(chan struct{})
			_, err := g.Call(ctx,
				&host.Request{Address: pAddr("a"), Method: "do", Codec: host.JSON, Input: remember(deed(func(_ *puppet, h host.Turn) error {
					defer close(over)
					if asks {
						h.Done() // it asks the caller's context
					}
					time.Sleep(work)
					return nil
				}))})
			took := time.Since(start)
			errorIf(t, took != min(limit, work) && parent.Err() == nil, "a call of %v with a limit of %v took %v", work, limit, took)
			<-over
			synctest.Wait()
			return err
		}
		for _, asks := range []bool{false, true} {
			for range 20 {
				wantCode(t, call(t.Context(), time.Second, 2*time.Second, asks), host.DeadlineExceeded)
				for range 3 {
					check(t, call(t.Context(), 2*time.Second, time.Second, asks))
				}
				parent, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				wantCode(t, call(parent, 2*time.Second, 3*time.Second, asks), host.Canceled)
			}
		}
	})
}

// An orderNotes is the order of a request that reads. Its turn comes when the turns before it have
// run.
type orderNotes struct {
	before func()
	calls  string
}

// Reads implements host.Order.
func (o *orderNotes) Reads(context.Context) bool {
	o.before()
	o.calls += "reads "
	return true
}

// Placed implements host.Order.
func (o *orderNotes) Placed() { o.calls += "placed " }

// Waits implements host.Order.
func (o *orderNotes) Waits() { o.calls += "waits " }

// A later request begins while the handler of a query runs, and the query sees all earlier turns.
func TestQueryHasItsPlaceWhenTheTurnsBeforeItHaveRunAndNotWhenItIsAnswered(t *testing.T) {
	for _, awake := range []bool{true, false} {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			if awake {
				g.must("a", add(1))
			}
			o := &orderNotes{before: func() { g.must("a", add(1)) }}
			seen, at := 0, ""
			look := glance(func(s *puppetState, _ host.Reader) error { seen, at = s.N, o.calls; return nil })
			if _, err := g.Call(t.Context(),
				&host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: remember(look), Order: o}); err != nil {
				t.Fatal(err)
			}
			n := g.n("a")
			errorIf(t, seen != n || at != "reads placed ",
				"awake %t: the query saw %d of %d turns, and had %q when its handler ran", awake, seen, n, at)
		})
	}
}
