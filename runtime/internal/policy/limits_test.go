package policy

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/limits.md anew from the constants of the code")

// A limit is a row of docs/limits.md. The values are constants of the code, as package.Name, with
// the folder of the package below the module's root.
type limit struct {
	what  string
	value string
	set   string // what sets it; empty if it is fixed
}

// The sections of docs/limits.md.
var limitSections = []struct {
	title string
	rows  []limit
}{
	{"An actor", []limit{
		{"parts of a key", "runtime/internal/kernel/address.MaxParts", ""},
		{"bytes of a key in its stored form", "runtime/internal/kernel/address.MaxBytes", ""},
		{"storage: keys, values, database and queues together", "engine.DefaultQuota bytes", "`storage_bytes`"},
		{"what one turn writes", "engine.DefaultMaxWriteSet bytes", "`write_set_bytes`"},
		{"the encoded state", "runtime/internal/kernel/limit.DefaultStateBytes bytes", "`state_bytes`"},
		{"calls that wait", "runtime/internal/kernel/limit.DefaultMailboxCount", "`mailbox_count`"},
		{"inputs of the calls that wait", "runtime/internal/kernel/limit.DefaultMailboxBytes bytes", "`mailbox_bytes`"},
		{"time of one turn", "runtime/internal/kernel/limit.DefaultTurnTimeout", "`turn_timeout`"},
		{"time of one query", "runtime/internal/kernel/limit.DefaultQueryTimeout", "`query_timeout`"},
		{"events kept for subscribers that resume", "runtime/internal/kernel/limit.DefaultEventHistory", "`event_history`"},
		{"tries of a message to another actor", "runtime/internal/kernel/limit.DefaultSendAttempts", "`send_attempts`"},
		{"dead letters of messages to other actors", "runtime/internal/part/mail.MaxDeadSends", ""},
		{"time that they are kept", "runtime/internal/part/mail.deadSendFor", ""},
		{"tasks at a time, steps of its run not counted", "runtime/internal/part/task.MaxTasks", ""},
		{"time for tasks to return when the actor goes to sleep", "runtime/internal/kernel/limit.DefaultTaskGrace", "`task_grace`"},
		{"bytes of an idempotency key", "runtime/internal/gateway.MaxIdempotencyKey", ""},
	}},
	{"Key-value data", []limit{
		{"bytes of a key in its stored form", "engine.DefaultMaxKey", ""},
		{"a value", "engine.DefaultMaxValue bytes", "`value_bytes`"},
		{"scopes of an actor's store", "actor/host/kv.MaxScopes", ""},
		{"scopes below the prefix of a token that makes one", "actor/host/kv.MaxGranted", ""},
		{"milliseconds that `kv.pin` pins a version", "actor/host/kv.DefaultPin", "`ttl_ms`"},
		{"the most that this `ttl_ms` can be", "actor/host/kv.MaxPin", ""},
		{"pinned versions of an actor", "actor/host/kv.MaxPins", ""},
		{"scopes around each other", "actor/host/kv.MaxNesting", ""},
		{"bytes of the prefix of a scope", "actor/host/kv.MaxPrefix", ""},
		{"bytes of the `info` of a scope", "actor/host/kv.MaxInfo", ""},
		{"branches of an actor's store", "actor/host/kv.MaxBranches", ""},
		{"branches of branches, one inside of the other", "actor/host/kv.MaxForks", ""},
		{"bytes of the name of a branch", "actor/host/kv.MaxBranchName", ""},
		{"entries that one `kv.merge` compares, and that one mutation of a branch removes", "actor/host/kv.MaxMerged", ""},
		{"unchanged entries that one `kv.merge` reads to find those; a larger store is merged in parts, each with a `prefix`", "actor/host/kv.MaxMergeReads", ""},
		{"merges of parts of a branch that later merges compare with; each key of `keys` is a part", "actor/host/kv.MaxParts", ""},
		{"entries that one mutation removes while versions of them are kept", "actor/host/kv.MaxKept", ""},
		{"tokens of an actor", "actor/host/token.MaxTokens", ""},
		{"bytes of the label of a token", "actor/host/token.MaxLabel", ""},
		{"bytes of the prefix of a token in its stored form", "actor/host/token.MaxPrefix", ""},
		{"tokens a second that are not valid and are still answered one by one", "runtime/internal/part/token.failuresPerSecond", ""},
		{"of them, at once", "runtime/internal/part/token.failuresAtOnce", ""},
		{"search indexes of an actor's store", "actor/host/kv.MaxIndexes", ""},
		{"fields of a search index", "actor/host/kv.MaxIndexFields", ""},
		{"bytes of the path of a field", "actor/host/kv.MaxFieldPath", ""},
		{"the most that the `weight` of a field can be", "actor/host/kv.MaxWeight", ""},
		{"bytes of the query of `kv.search`", "actor/host/kv.MaxQuery", ""},
		{"words and phrases of that query", "runtime/internal/part/kv/match.maxPhrases", ""},
		{"entries of `kv.search`", "actor/host/kv.DefaultHits", "`limit`"},
		{"words of a snippet of `kv.search`", "actor/host/kv.MaxSnippetWords", ""},
		{"entries that one turn adds to a search index that is built", "runtime/internal/part/kv.sliceLimit", ""},
		{"keys of one `kv.get_many`", "actor/host/kv.MaxKeys", ""},
		{"entries of a page of `kv.list`", "actor/host/kv.DefaultPage", "`limit`"},
		{"the most that this `limit` can be", "actor/host/kv.MaxPage", ""},
		{"bytes of a page of `kv.list`", "runtime/internal/part/kv.pageBytes bytes", ""},
		{"keys that one watcher names", "actor/host/kv.MaxWatchedKeys", ""},
		{"prefixes that one watcher names", "actor/host/kv.MaxWatchedPrefixes", ""},
		{"watchers of an actor", "actor/host/kv.MaxWatchers", ""},
		{"entries that one watcher follows", "actor/host/kv.MaxWatchedEntries", ""},
		{"bytes of their keys", "actor/host/kv.MaxWatchedBytes", ""},
		{"bytes of the JSON of an event, after which it ends", "runtime/internal/part/kv.eventBytes bytes", ""},
		{"what a watcher may always remember", "runtime/internal/part/kv.fewBytes bytes", ""},
		{"entries that a page of a filter reads", "runtime/internal/part/kv.scanEntries", ""},
		{"entries that one `kv.count` or `kv.sample` reads", "runtime/internal/part/kv.countEntries", ""},
		{"entries of `kv.sample`", "actor/host/kv.DefaultSample", "`n`"},
		{"checks of one `kv.commit`", "actor/host/kv.MaxChecks", ""},
		{"mutations of one `kv.commit`", "actor/host/kv.MaxMutations", ""},
		{"bytes of their keys and values", "actor/host/kv.MaxCommit bytes", ""},
		{"entries that the filters of one `kv.commit` read", "actor/host/kv.MaxFiltered", ""},
		{"entries that the checks of digests of one `kv.commit` read", "runtime/internal/part/kv/rows.MaxChecked", ""},
		{"different placeholders of one `kv.commit`", "actor/host/kv.MaxResolved", ""},
		{"stored values that one `kv.commit` reads", "runtime/internal/part/kv/rows.maxWork bytes", ""},
		{"rest of a transaction of `ref.KV().Begin`", "actor/kv.maxIdle", ""},
		{"tries of `ref.KV().Update`", "actor/kv.tries", ""},
		{"the template of `kv.render`", "actor/host/kv.MaxTemplate bytes", ""},
		{"the text that it makes", "actor/host/kv.MaxRendered bytes", ""},
		{"time that it takes", "actor/host/kv.MaxRenderTime", ""},
		{"nodes of it that are executed", "actor/host/kv.MaxRenderSteps", ""},
		{"templates that call each other, one inside of another", "actor/host/kv.MaxTemplates", ""},
		{"entries that it sees", "actor/host/kv.MaxRenderEntries", ""},
		{"bytes of their values", "actor/host/kv.MaxRenderBytes bytes", ""},
		{"bytes that its function `json` makes", "runtime/internal/part/kv.maxMade bytes", ""},
		{"lists of one `kv.list_many`", "actor/host/kv.MaxLists", ""},
		{"entries of its pages together", "actor/host/kv.MaxListed", ""},
		{"bytes of its pages together", "runtime/internal/part/kv.pagesBytes bytes", ""},
		{"`sends` of one `kv.commit`", "actor/host/kv.MaxSends", ""},
		{"values in the keys of one input, and in its lists without a limit of their own", "actor/host.MaxLoose", ""},
		{"digits of the integers of `sum`, `min` and `max`", "runtime/internal/part/kv/value.MaxDigits", ""},
		{"nesting of a JSON document", "runtime/internal/part/kv/value.MaxDepth", ""},
		{"the most that `value_bytes` can be", "engine.MaxValueCap bytes", ""},
		{"the most that `write_set_bytes` can be", "engine.MaxWriteSetCap bytes", ""},
	}},
	{"Package `runtime/store`", []limit{
		{"memory of the node that `store.Open` runs", "runtime/store.memory bytes", ""},
		{"events in the channel of a watcher; later ones wait in the log", "runtime/store.watchBuffer", ""},
		{"offset of `GetPage`", "runtime/store.MaxOffset", ""},
		{"time of a loop over a group", "runtime/store.pinned", ""},
		{"time that a change waits while the node is overloaded", "runtime/store.patience", ""},
	}},
	{"Cells", []limit{
		{"entries of a page", "runtime/cell.DefaultLimit", "`limit`"},
		{"the most that `limit` can be", "runtime/cell.MaxLimit", ""},
		{"bytes of a page", "runtime/cell.PageBytes bytes", ""},
		{"checks of one `atomic`", "runtime/cell.MaxChecks", ""},
		{"mutations of one `atomic`", "runtime/cell.MaxMutations", ""},
		{"messages of one `atomic`", "runtime/cell.MaxEnqueues", ""},
		{"the value of an event", "runtime/cell.MaxEventValue bytes", ""},
		{"the state", "runtime/cell.MaxState bytes", ""},
	}},
	{"Queues", []limit{
		{"lock of a message", "actor/host.DefaultQueueLock", "the queue's declaration"},
		{"messages that wait or are locked", "actor/host.DefaultQueueMessages", "the queue's declaration"},
		{"one message", "actor/host.DefaultQueueMessageBytes bytes", "the queue's declaration"},
		{"time in which a repeated id is dropped", "actor/host.DefaultQueueDedupWindow", "the queue's declaration"},
		{"time that dead letters are kept", "actor/host.DefaultQueueDeadFor", "the queue's declaration"},
		{"dead letters", "actor/host.DefaultQueueDead", "the queue's declaration"},
		{"time that replies are kept", "actor/host.DefaultQueueReplyFor", "the queue's declaration"},
		{"delay, lock or time to live of a message", "actor/host.MaxQueueDelay", ""},
		{"messages of one call", "actor/host.MaxQueueBatch", ""},
		{"the highest priority; the lowest is its negative", "actor/host.MaxQueuePriority", ""},
		{"bytes of a `DedupID`", "actor/host.MaxDedupID", ""},
		{"keys of `keys_if_undelivered`", "runtime/internal/part/queue.maxUndeliveredKeys", ""},
		{"pauses of a backoff", "runtime/internal/part/queue/rows.maxPauses", ""},
		{"time in which a run can answer a request", "actor/host.MaxQueueDelay", ""},
	}},
	{"Streams", []limit{
		{"items kept", "actor/host.DefaultStreamItems", "the stream's declaration"},
		{"bytes kept", "actor/host.DefaultStreamBytes bytes", "the stream's declaration"},
		{"one item", "actor/host.DefaultStreamItemBytes bytes", "the stream's declaration"},
		{"items of one call", "actor/host.MaxStreamBatch", ""},
		{"items of a page, unless the reader names a number", "runtime/internal/part/stream/rows.defaultPage", "`ReadConfig`"},
	}},
	{"Attributes and listings", []limit{
		{"attributes of a type", "actor/host.MaxAttributes", ""},
		{"a string of an attribute", "actor/host.MaxAttributeBytes bytes", ""},
		{"conditions of a query", "runtime/internal/survey.maxConditions", ""},
		{"rows of a query over many databases", "runtime/internal/part/sqlite.maxManyRows", ""},
		{"actors of such a query", "runtime/internal/part/sqlite.maxManyActors", ""},
		{"time of such a query", "runtime/internal/part/sqlite.maxManyTime", ""},
		{"time of its statement in one database", "runtime/internal/part/sqlite.maxActorTime", ""},
		{"actors that a page of a query looks at", "runtime/internal/survey.maxLooked", ""},
	}},
	{"Schedules", []limit{
		{"schedules of an actor", "actor/host.MaxSchedules", ""},
		{"the shortest interval", "actor/host.MinScheduleEvery", ""},
		{"runs in the history", "actor/host.DefaultScheduleRuns", "the schedule's rule"},
		{"the most runs in the history", "actor/host.MaxScheduleRuns", ""},
		{"missed ticks that run later (`MissedAll`)", "actor/host.DefaultScheduleCatchUp", "the schedule's rule"},
		{"the most missed ticks that run later", "actor/host.MaxScheduleCatchUp", ""},
	}},
	{"Connections", []limit{
		{"connections of an actor", "actor/host.DefaultConnections", "`connections`"},
		{"what is kept for a client that does not read", "actor/host.DefaultConnectionBytes bytes", "`connection_bytes`"},
		{"time for a lost client to come back", "actor/host.DefaultConnectionGrace", "`connection_grace`"},
		{"parameters of a connection", "actor/host.MaxConnectionParams bytes", ""},
		{"subscriptions of a connection", "actor/host.MaxSubscriptions", ""},
	}},
	{"Workflows", []limit{
		{"a result, state or message", "workflow/internal/journal.DefaultMaxPayload bytes", ""},
		{"size up to which a result is stored in its entry", "workflow/internal/journal.InlineLimit bytes", ""},
		{"bytes of a name", "workflow/internal/journal.MaxName", ""},
		{"distinct names of a run", "workflow/internal/journal.MaxNames", ""},
		{"branches of a `ForEach`, `Join` or `Race`", "workflow/internal/replay.MaxBranches", ""},
		{"a recording", "workflow/internal/replay.MaxRecording bytes", ""},
		{"steps of a run under way", "runtime/internal/part/run.maxAttempts", ""},
		{"tries of a step", "workflow/internal/replay.defaultAttempts", "`Retry`"},
		{"pause after the first failure; each later one is twice as long", "workflow/internal/replay.defaultInitial", "`Retry`"},
		{"the longest pause", "workflow/internal/replay.defaultMax", "`Retry`"},
		{"tries of an undo handler, after which the run is paused", "workflow/internal/replay.defaultUndoAttempts", "`UndoRetry`"},
		{"the longest pause of an undo handler", "workflow/internal/replay.defaultUndoMax", "`UndoRetry`"},
	}},
	{"SQL", []limit{
		{"heap of one connection", "sqlitevfs.DefaultConnMemory bytes", "`[sql] conn_memory`"},
		{"pages that one turn changes", "sqlitevfs.DefaultTurnBytes bytes", "`[sql] turn_bytes`"},
		{"page cache of one connection", "sqlitevfs.DefaultCacheBytes bytes", "`[sql] cache_bytes`"},
		{"temporary files of one connection", "sqlitevfs.DefaultTemporary bytes", "`[sql] temporary`"},
		{"one string, blob or row", "sqlitevfs.DefaultMaxLength bytes", "`[sql] max_length`"},
		{"the most that `max_length` can be, in bytes", "sqlitevfs.MaxLength", ""},
		{"open connections of a node", "sqlitevfs.DefaultMaxOpen", "`[sql] max_open`"},
		{"time after which an unused connection is closed", "sqlitevfs.DefaultIdleTime", "`[sql] idle_time`"},
		{"prepared statements of a connection", "sqlitevfs.DefaultStatements", ""},
		{"migrations of a type", "actor.maxMigrations", ""},
		{"bytes of one migration", "actor.maxMigrationBytes", ""},
	}},
	{"HTTP and WebSockets", []limit{
		{"the body of a request, or a message over a WebSocket",
			"runtime/internal/gateway/serve.DefaultBodyBytes bytes", "`[gateway] body_bytes`"},
		{"the body of a request that may carry entries of a key-value store", "runtime/internal/gateway/serve.KVBodyBytes bytes", ""},
		{"a key of Strata", "runtime/internal/gateway/strata.maxKey bytes", ""},
		{"a value of Strata, as it is stored", "runtime/internal/gateway/strata.maxValue bytes", ""},
		{"transactions of Strata at a time, of one actor", "runtime/internal/gateway/strata.maxOfActor", ""},
		{"transactions of Strata at a time, of one node", "runtime/internal/gateway/strata.maxSessions", ""},
		{"what a transaction of Strata has read and is to write", "runtime/internal/gateway/strata.maxBytes bytes", ""},
		{"the same, of all transactions of a node", "runtime/internal/gateway/strata.maxAllBytes bytes", ""},
		{"time that a transaction of Strata rests", "runtime/internal/gateway/strata.idle", ""},
		{"time to send a body", "runtime/internal/gateway/serve.DefaultBodyTimeout", "`Options.Gateway`"},
		{"time to send a header", "runtime/internal/gateway/serve.ReadHeaderTimeout", ""},
		{"a header, with the path", "runtime/internal/gateway/serve.MaxHeaderBytes bytes", ""},
		{"time of a call", "runtime/internal/gateway/serve.DefaultCallTimeout", "`Options.Gateway`"},
		{"time to read a reply, after the time of the call", "runtime/internal/gateway/serve.ReplyTimeout", ""},
		{"time that an unused network connection is kept", "runtime/internal/gateway/serve.IdleTimeout", ""},
		{"a database that is imported", "runtime/internal/gateway/serve.DefaultImportBytes bytes", "`Options.Gateway`"},
		{"connections to actors that are open", "runtime/internal/gateway/serve.DefaultConnections", "`[gateway] connections`"},
		{"event streams, followed streams and workers that are open", "runtime/internal/gateway/serve.DefaultStreams",
			"`[gateway] streams`"},
		{"calls of one connection under way", "runtime/internal/gateway/serve.DefaultConnectionCalls", "`Options.Gateway`"},
		{"inputs of the calls of one connection", "runtime/internal/gateway/serve.DefaultConnectionBytes bytes", "`Options.Gateway`"},
		{"time in which a client must read something", "runtime/internal/gateway/serve.DefaultStreamWriteTimeout", "`Options.Gateway`"},
		{"time between comments in a stream", "runtime/internal/gateway/serve.DefaultHeartbeat", "`Options.Gateway`"},
		{"the most entries of a page", "runtime/internal/gateway.maxPage", ""},
	}},
	{"NATS", []limit{
		{"commits whose changes wait to be published", "runtime/internal/natspub.DefaultMaxOutboxRows", ""},
		{"bytes of the changes that wait", "runtime/internal/natspub.DefaultMaxOutboxBytes bytes", ""},
		{"calls under way", "runtime/internal/natspub.DefaultMaxCalls", ""},
		{"time of a call", "runtime/internal/natspub.DefaultCallTimeout", ""},
		{"wait for an acknowledgement of JetStream", "runtime/internal/natspub.DefaultAckTimeout", ""},
	}},
	{"The Go client", []limit{
		{"tries of a call", "runtime/client.DefaultAttempts", "`Options.Attempts`"},
		{"pause before the second try", "runtime/client.DefaultBackoff", "`Options`"},
		{"the longest pause between tries", "runtime/client.DefaultMaxBackoff", "`Options`"},
		{"a reply", "runtime/client.DefaultReplyBytes bytes", "`Options`"},
		{"silence after which a stream counts as lost", "runtime/client.DefaultStreamSilence", "`Options`"},
	}},
	{"A node", []limit{
		{"actors in memory", "runtime/internal/kernel/options.DefaultMaxAwake", "`[actors] max_awake`"},
		{"time after which an unused actor goes to sleep", "runtime/internal/kernel/options.DefaultIdleTimeout", "`[actors] idle_timeout`"},
		{"time that replies are kept for idempotency keys", "runtime/internal/kernel/options.DefaultReplyRetention", ""},
		{"alarms that fire at a time", "runtime/internal/kernel/options.DefaultAlarmConcurrency", "`Options.AlarmConcurrency`"},
		{"memory, if the machine has more", "runtime.DefaultMaxMemory bytes", "`memory`"},
		{"free disk space below which writes are refused", "engine.DefaultMinFreeBytes bytes", "`[storage] min_free_bytes`"},
		{"time that a stop waits for turns", "runtime.DefaultDrainTimeout", "`[actors] drain_timeout`"},
	}},
}

// TestLimitsPageHasTheNumbersOfTheCode compares docs/limits.md with the constants.
func TestLimitsPageHasTheNumbersOfTheCode(t *testing.T) {
	top := root(t)
	c := newConstants(top)
	var want bytes.Buffer
	want.WriteString(`# All limits and defaults

The test ` + "`TestLimitsPageHasTheNumbersOfTheCode`" + ` writes this page from the constants of the code. Sizes of a node are those
with 4 GiB of memory or more: with less, a node [divides its memory](operate/configure.md#memory). A row with a dash is
fixed.

Names such as ` + "`storage_bytes`" + ` are limits of a type or an actor: [limits](operate/limits.md) shows how to set them. Names such as
` + "`[sql] max_open`" + ` are keys of the [configuration](operate/configure.md).
`)
	used := make(map[string]bool)
	for _, s := range limitSections {
		fmt.Fprintf(&want, "\n## %s\n\n| what | limit or default | set by |\n|---|---|---|\n", s.title)
		for _, l := range s.rows {
			name, unit, _ := strings.Cut(l.value, " ")
			used[name] = true
			v, ok := c.constant(name)
			if !ok {
				t.Errorf("%q: the code has no constant %s", l.what, name)
				continue
			}
			fmt.Fprintf(&want, "| %s | %s | %s |\n", l.what, inWords(v, unit == "bytes"), cmp.Or(l.set, "—"))
		}
	}
	for _, dir := range []string{"actor/host", "runtime/internal/kernel/limit", "runtime/internal/gateway/serve"} {
		p, err := c.Import(path.Join(module, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Scope().Names() {
			_, is := p.Scope().Lookup(name).(*types.Const)
			if is && (strings.HasPrefix(name, "Default") || strings.HasPrefix(name, "Max")) && !used[dir+"."+name] && !unlisted[name] {
				t.Errorf("docs/limits.md has no row of %s.%s", dir, name)
			}
		}
	}
	file := filepath.Join(top, "docs", "limits.md")
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/limits.md differs from the code: run go test ./runtime/internal/policy -run LimitsPage -update")
	}
}

// unlisted are constants that a node does not use as they are, or that users do not notice.
var unlisted = map[string]bool{
	"DefaultMemoryBytes":       true, // A node gives the gateway a part of its memory.
	"DefaultStreamBufferBytes": true,
}

// inWords writes a constant for people.
func inWords(c *types.Const, size bool) string {
	n, _ := constant.Int64Val(constant.ToInt(c.Val()))
	switch {
	case c.Type().String() == "time.Duration":
		return duration(time.Duration(n))
	case size && n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case size && n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case size && n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if size {
		text += " bytes"
	}
	return text
}

func duration(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d >= u.of && d%u.of == 0 {
			return fmt.Sprintf("%d %s", d/u.of, u.name)
		}
	}
	return d.String()
}

// constants finds constants in the source of the module. It reads what constants need, which is no
// function, and no library except that of time.
type constants struct {
	top      string
	files    *token.FileSet
	standard types.Importer
	packages map[string]*types.Package
}

func newConstants(top string) *constants {
	files := token.NewFileSet()
	return &constants{top, files, importer.ForCompiler(files, "source", nil), make(map[string]*types.Package)}
}

// constant looks up folder.Name.
func (c *constants) constant(name string) (*types.Const, bool) {
	dot := strings.LastIndex(name, ".")
	p, err := c.Import(path.Join(module, name[:dot]))
	if err != nil {
		return nil, false
	}
	found, ok := p.Scope().Lookup(name[dot+1:]).(*types.Const)
	return found, ok && found.Val().Kind() != constant.Unknown
}

// Import implements types.Importer.
func (c *constants) Import(name string) (*types.Package, error) {
	if p := c.packages[name]; p != nil {
		return p, nil
	}
	if name == "time" {
		return c.standard.Import(name)
	}
	dir, ok := strings.CutPrefix(name, module+"/")
	if !ok { // No constant needs it.
		p := types.NewPackage(name, path.Base(name))
		p.MarkComplete()
		return p, nil
	}
	names, err := filepath.Glob(filepath.Join(c.top, dir, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no source of %s: %v", name, err)
	}
	var parsed []*ast.File
	for _, file := range names {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(c.files, file, nil, 0)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	// What the empty packages lack is an error, and what builds for several systems is there twice.
	check := types.Config{Importer: c, IgnoreFuncBodies: true, Error: func(error) {}}
	p, _ := check.Check(name, c.files, parsed, nil)
	c.packages[name] = p
	return p, nil
}
