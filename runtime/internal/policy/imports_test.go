// Package policy holds the tests that guard the structure of the module: which package may import
// what, and the form of the packages themselves.
package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/cairn-run/cairn"

// A rule says what the packages under a path may import. The first rule that matches a package
// holds for it. Tests are held to the floors like other code, but may use any library.
type rule struct {
	pkg string // path below the module; a trailing "/..." includes everything below
	// uses lists the packages of the module that it may import, themselves or below; libs the
	// libraries, by prefix. The standard library is open, except what never lists.
	uses  []string
	libs  []string
	never []string // may not be imported even through others: path prefixes
	why   string
}

const (
	pebble     = "github.com/cockroachdb/pebble"
	nats       = "github.com/nats-io"
	prometheus = "github.com/prometheus"
	cbor       = "github.com/fxamacker/cbor"
	xxh3       = "github.com/zeebo/xxh3"
	uuid       = "github.com/google/uuid"
	websocket  = "github.com/coder/websocket"
	sqlite     = "github.com/ncruces/go-sqlite3"
	otel       = "go.opentelemetry.io"
)

// policy is the floors of docs/architecture.md, from the ground up.
var policy = []rule{
	{pkg: "keyspace/tuple", never: []string{"net", "os", "log"}, why: "a codec: no I/O, standard library only"},
	{pkg: "keyspace", uses: []string{"keyspace/tuple"}, libs: []string{uuid}, never: []string{"net", "os", "log"},
		why: "byte layouts: no I/O of its own; standard library and the type of UUIDs"},
	{pkg: "engine", uses: []string{"keyspace"}, libs: []string{pebble, xxh3, "golang.org/x/sys"},
		never: []string{"net/http"}, why: "the only importer of Pebble"},
	{pkg: "sqlitevfs", uses: []string{"keyspace"}, libs: []string{sqlite}, never: []string{"net/http", pebble},
		why: "the only importer of the SQLite library; usable alone"},
	{pkg: "traces", uses: []string{"keyspace"}, libs: []string{otel, "google.golang.org/protobuf"},
		never: []string{pebble, "net/http"}, why: "the only importer of OpenTelemetry; knows no engine and no actor"},
	{pkg: "traces/collector", uses: []string{"traces"},
		libs: []string{otel, "google.golang.org/protobuf",
			"github.com/prometheus/client_model"}, never: []string{pebble}, why: "sends spans and metrics to a collector"},
	{pkg: "workflow/lazy", never: []string{"net", "os", "log"}, why: "a context: standard library only"},
	{pkg: "workflow/internal/journal", uses: []string{"keyspace", "keyspace/tuple"}, libs: []string{cbor},
		never: []string{"net", "os"}, why: "rows of a run as bytes: no run, no I/O"},
	{pkg: "workflow/internal/form1", uses: []string{"keyspace/tuple", "workflow/internal/journal"},
		libs: []string{cbor}, never: []string{"net", "os"}, why: "rows of another engine as bytes: no run, no I/O"},
	{pkg: "workflow/internal/replay",
		uses: []string{"keyspace", "workflow/lazy", "workflow/internal/form1",
			"workflow/internal/journal"}, libs: []string{cbor}, never: []string{"net", "os"},
		why: "durable functions over a journal: no database, no actor, no I/O"},
	{pkg: "workflow/host", uses: []string{"workflow/internal/replay"}, never: []string{"net", "os"},
		why: "what hosts of runs use: names for the implementation"},
	{pkg: "workflow", uses: []string{"workflow/internal/replay"}, never: []string{"net", "os"},
		why: "what authors of workflow functions use: names for the implementation"},
	{pkg: "workflow/internal/rowmap", never: []string{"net", "os"}, why: "the rows of a run in memory, for tests"},
	{pkg: "workflow/internal/memory", uses: []string{"workflow/host", "workflow/internal/rowmap"},
		never: []string{"net", "os"}, why: "a host of runs in memory, for tests"},
	{pkg: "actor/host", uses: []string{"keyspace/tuple", "workflow"}, libs: []string{"github.com/google/uuid"},
		never: []string{"net", "os"}, why: "the contract between actor and runtime: no library but the one for ids"},
	{pkg: "actor/host/hosttest", uses: []string{"actor/host"}, never: []string{"net", "os"}, why: "what tests put before a node and on it"},
	{pkg: "actor/host/kv", uses: []string{"actor/host", "keyspace/tuple"}, libs: []string{cbor},
		never: []string{"net", "os"}, why: "keys as callers write them"},
	{pkg: "actor/host/token", uses: []string{"actor/host"}, never: []string{"net", "os"}, why: "tokens, and what they allow: no store"},
	{pkg: "actor/host/usage", uses: []string{"actor/host"}, never: []string{"net", "os"}, why: "what actors do, as operators see it"},
	{pkg: "actor/host/changes", uses: []string{"actor/host"}, never: []string{"net/http", "os"}, why: "what actors change, as it happens"},
	{pkg: "actor/host/audit", uses: []string{"actor/host"}, never: []string{"net/http", "os"},
		why: "records of what operators do, and where calls come from"},
	{pkg: "actor/host/trace", uses: []string{"actor/host"}, never: []string{"net", "os"}, why: "spans as operators see them"},
	{pkg: "actor/host/method", uses: []string{"actor/host", "workflow"}, never: []string{"net", "os"},
		why: "the table of built-in methods: facts, no behaviour"},
	{pkg: "actor/internal/codec", uses: []string{"actor/host"}, libs: []string{cbor},
		never: []string{"net/http", pebble, nats, prometheus, sqlite}, why: "how values are encoded: reflection and bytes"},
	{pkg: "actor/internal/site", uses: []string{"actor/host", "actor/internal/codec", "keyspace/tuple"},
		never: []string{"net/http", pebble, nats, prometheus, sqlite}, why: "calls of built-in methods"},
	{pkg: "actor/handle", uses: []string{"actor/host", "actor/internal", "keyspace/tuple", "workflow"},
		never: []string{"net/http", pebble, nats, prometheus, sqlite}, why: "what callers and operators may do: knows no contract"},
	{pkg: "actor/kv", uses: []string{"actor/host", "actor/internal"}, libs: []string{cbor},
		never: []string{"net/http", pebble, nats, prometheus,
			sqlite}, why: "the key-value store for callers and operators: knows no contract"},
	{pkg: "actor", uses: []string{"actor/handle", "actor/kv", "actor/host", "actor/internal", "keyspace/tuple",
		"workflow"}, never: []string{"net/http", pebble, nats, prometheus, sqlite}, why: "what authors import: no database, no network"},
	{pkg: "workflow/workflowtest", uses: []string{"workflow"}, never: []string{"net", pebble},
		why: "tests of workflows in memory: no database, no actor"},
	{pkg: "runtime/internal/record", libs: []string{cbor}, never: []string{"net", "os"}, why: "a codec"},
	{pkg: "runtime/internal/part/queue/rows",
		uses: []string{"actor/host", "engine", "keyspace",
			"runtime/internal/record"}, never: []string{"net"}, why: "below the kernel: rows of queues, no goroutine and no clock"},
	{pkg: "runtime/internal/part/schedule/rows",
		uses: []string{"actor/host", "engine", "keyspace",
			"runtime/internal/record"}, libs: []string{"github.com/netresearch/go-cron"}, never: []string{"net"},
		why: "below the kernel: rows of schedules, no goroutine and no clock"},
	{pkg: "runtime/internal/part/stream/rows",
		uses: []string{"actor/host", "engine", "keyspace",
			"runtime/internal/record"}, never: []string{"net"}, why: "below the kernel: rows of streams, no goroutine and no clock"},
	{pkg: "runtime/internal/kernel/address", uses: []string{"actor/host"}, never: []string{"net", "os"},
		why: "a noun of the kernel: keys and forms of addresses"},
	{pkg: "runtime/internal/kernel/gate", never: []string{"net", "os"}, why: "a noun of the kernel: readers that wait for commits"},
	{pkg: "runtime/internal/kernel/waitgraph", never: []string{"net", "os"}, why: "a noun of the kernel: who waits for whom"},
	{pkg: "runtime/internal/kernel/attach", never: []string{"net", "os"}, why: "a noun of the kernel: what packages attach to an object"},
	{pkg: "runtime/internal/kernel/directory", never: []string{"net", "os"}, why: "a noun of the kernel: values in memory by key"},
	{pkg: "runtime/internal/kernel/mailbox", never: []string{"net", "os"}, why: "a noun of the kernel: what waits for an actor"},
	{pkg: "runtime/internal/kernel/signal", never: []string{"net", "os"}, why: "a noun of the kernel: waiters for topics"},
	{pkg: "runtime/internal/kernel/rate", never: []string{"net", "os"},
		why: "a noun of the kernel: token buckets, and a limiter of log lines"},
	{pkg: "runtime/internal/kernel/limit", uses: []string{"actor/host", "engine", "runtime/internal/kernel/rate"},
		never: []string{"net/http"}, why: "a noun of the kernel: limits of types and of single actors"},
	{pkg: "runtime/internal/kernel/park", uses: []string{"actor/host", "runtime/internal/kernel/address"},
		never: []string{"net", "os"}, why: "a noun of the kernel: paused actors, and what waits for them"},
	{pkg: "runtime/internal/kernel/retry", uses: []string{"actor/host"}, never: []string{"net", "os"},
		why: "a noun of the kernel: when something is tried again, and which actors have failed"},
	{pkg: "runtime/internal/kernel/clock",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel/park",
			"runtime/internal/kernel/retry", "runtime/internal/kernel/address"}, never: []string{"net/http"},
		why: "a noun of the kernel: fires due rows of the wake index"},
	{pkg: "runtime/internal/kernel/patrol", never: []string{"net", "os"},
		why: "a noun of the kernel: a goroutine that looks while there is something to look at"},
	{pkg: "runtime/internal/kernel/memory", never: []string{"net", "os"}, why: "a noun of the kernel: what awake actors take"},
	{pkg: "runtime/internal/kernel/stacks", never: []string{"net", "os"}, why: "a noun of the kernel: where goroutines are"},
	{pkg: "runtime/internal/kernel/fault",
		uses: []string{"actor/host", "engine", "runtime/internal/kernel/address",
			"runtime/internal/kernel/rate"}, never: []string{"net/http"}, why: "a noun of the kernel: errors that leave the node"},
	{pkg: "runtime/internal/kernel/change",
		uses: []string{"keyspace", "actor/host", "actor/host/changes", "engine",
			"runtime/internal/kernel/fault"}, never: []string{"net/http", nats}, why: "a noun of the kernel: what is published of actors"},
	{pkg: "runtime/internal/kernel/options",
		uses: []string{"actor/host", "engine", "runtime/internal/kernel/change",
			"runtime/internal/kernel/limit"}, libs: []string{prometheus}, never: []string{"net/http", nats},
		why: "a noun of the kernel: its options"},
	{pkg: "runtime/internal/kernel/metrics", uses: []string{"actor/host", "runtime/internal/kernel/mailbox"},
		libs: []string{prometheus}, never: []string{"net/http", nats}, why: "a noun of the kernel: its counters"},
	{pkg: "runtime/internal/kernel/deadline", never: []string{"net", "os"}, why: "a noun of the kernel: contexts that end"},
	{pkg: "runtime/internal/kernel/pace", never: []string{"net", "os"}, why: "a noun of the kernel: how long code usually takes"},
	{pkg: "runtime/internal/kernel/cached", uses: []string{"engine", "keyspace"}, never: []string{"net"},
		why: "a noun of the kernel: what is remembered of rows"},
	{pkg: "runtime/internal/kernel/standing", uses: []string{"keyspace"}, never: []string{"net"},
		why: "a noun of the kernel: which rows at 0 an actor has"},
	{pkg: "runtime/internal/kernel/tally", never: []string{"net", "os"}, why: "a noun of the kernel: what an actor does, counted"},
	{pkg: "runtime/internal/kernel/ledger", never: []string{"net", "os"}, why: "a noun of the kernel: results that wait for a commit"},
	{pkg: "runtime/internal/kernel/view",
		uses: []string{"engine", "keyspace", "runtime/internal/kernel/attach",
			"runtime/internal/kernel/fault"}, never: []string{"net/http"}, why: "a noun of the kernel: what queries read"},
	{pkg: "runtime/internal/kernel/reply",
		uses: []string{"actor/host", "engine", "keyspace",
			"runtime/internal/record"}, libs: []string{xxh3}, never: []string{"net/http"},
		why: "a noun of the kernel: replies to calls with an idempotency key"},
	{pkg: "runtime/internal/kernel/spawn", never: []string{"net", "os"}, why: "a noun of the kernel: goroutines that can be waited for"},
	{pkg: "runtime/internal/kernel/profile", never: []string{"net", "os"}, why: "a noun of the kernel: labels of goroutines"},
	{pkg: "runtime/internal/kernel/worker", uses: []string{"runtime/internal/kernel/spawn"},
		never: []string{"net", "os"}, why: "a noun of the kernel: the goroutines that run actors"},
	{pkg: "runtime/internal/kernel/wire", uses: []string{"actor/host"}, libs: []string{cbor}, never: []string{"os"},
		why: "a noun of the kernel: the encoding of inputs and outputs"},
	{pkg: "runtime/internal/kernel/span", uses: []string{"actor/host", "runtime/internal/kernel/attach"},
		never: []string{"net", "os"}, why: "a noun of the kernel: what is recorded of actors"},
	{pkg: "runtime/internal/timed", never: []string{"net", "os", "log"}, why: "a context: standard library only"},
	{pkg: "runtime/internal/kernel/sweep", never: []string{"net", "os"}, why: "a noun of the kernel: which actors fall asleep, and when"},
	{pkg: "runtime/internal/kernel",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel", "runtime/internal/record",
			"runtime/internal/timed"}, libs: []string{cbor, prometheus, xxh3},
		never: []string{"net/http", nats, sqlite, module + "/sqlitevfs",
			module + "/runtime/internal/part"}, why: "directory, mailbox, turn, commit, gate, life: knows no part"},
	{pkg: "runtime/internal/audit",
		uses: []string{"actor/host", "engine", "runtime/internal/kernel",
			"runtime/internal/record"}, never: []string{"net/http", nats, module + "/runtime/internal/part"},
		why: "the audit log: over the kernel, below the router and the parts"},
	{pkg: "runtime/internal/call",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel",
			"runtime/internal/audit"}, libs: []string{prometheus},
		never: []string{"net/http", nats,
			module + "/runtime/internal/part"}, why: "built-in methods and queries: over the kernel, below the parts"},
	{pkg: "runtime/internal/survey",
		uses: []string{"actor/host", "engine", "keyspace", "workflow/host", "runtime/internal/kernel",
			"runtime/internal/call"}, never: []string{"net/http", nats},
		why: "what is said of actors, on a node and without one: over the kernel, below the parts"},
	{pkg: "runtime/internal/duty", uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel"},
		never: []string{"net/http", nats}, why: "standing work of actors: over the kernel, below the parts"},
	{pkg: "runtime/internal/part/admin/control",
		uses: []string{"actor/host", "engine", "keyspace",
			"runtime/internal/record"}, never: []string{"net/http"}, why: "below the kernel: the record of what operators have set"},
	{pkg: "runtime/internal/kernel/kerneltest",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel", "runtime/internal/call",
			"runtime/internal/duty"}, never: []string{"net/http", nats, sqlite, module + "/runtime/internal/part"},
		why: "the conformance suite of parts: knows no part"},
	{pkg: "runtime/internal/part/kv/v8", never: []string{"net", "os"}, why: "below the kernel: a codec, standard library only"},
	{pkg: "runtime/internal/part/kv/value",
		uses: []string{"actor/host", "runtime/internal/kernel/wire",
			"runtime/internal/part/kv/v8"}, libs: []string{cbor}, never: []string{"net"},
		why: "below the kernel: what values are, and what mutations make of them"},
	{pkg: "runtime/internal/part/kv/where", uses: []string{"actor/host"}, libs: []string{"golang.org/x/text"},
		never: []string{"net", "os"}, why: "below the kernel: filters of entries"},
	{pkg: "runtime/internal/part/kv/match", uses: []string{"sqlitevfs"},
		never: []string{"net", "os",
			module + "/sqlitevfs"}, why: "below the kernel: the text of a search, as a query of FTS5; only tests use SQLite"},
	{pkg: "runtime/internal/part/kv/rows",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/record",
			"runtime/internal/part/kv/value"}, libs: []string{uuid}, never: []string{"net/http"},
		why: "below the kernel: commits, scopes and versions of the key-value store"},
	{pkg: "runtime/internal/sqlitefile", uses: []string{"keyspace", "sqlitevfs"}, never: []string{"net", pebble},
		why: "SQLite files outside of actors: knows no actor"},
	{pkg: "runtime/internal/kvfile",
		uses: []string{"actor/host", "actor/kv", "keyspace/tuple", "runtime/internal/part/kv/value",
			"runtime/internal/sqlitefile"}, never: []string{"net", pebble}, why: "files of entries: a codec; opens no file"},
	{pkg: "runtime/internal/part/kv",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/record", "runtime/internal/part/kv"},
		libs: []string{prometheus, cbor}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/alarm",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/record"}, libs: []string{prometheus},
		never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/attribute",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel", "runtime/internal/call",
			"runtime/internal/survey"}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/schedule",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel", "runtime/internal/call",
			"runtime/internal/survey", "runtime/internal/record", "runtime/internal/part/schedule/rows"},
		libs: []string{prometheus}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/queue",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/duty", "runtime/internal/record", "runtime/internal/part/queue/rows"}, libs: []string{prometheus}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/stream",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel", "runtime/internal/call",
			"runtime/internal/record", "runtime/internal/part/stream/rows"}, libs: []string{prometheus, cbor},
		never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/event",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel", "runtime/internal/call",
			"runtime/internal/survey", "runtime/internal/record"}, libs: []string{prometheus},
		never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/mail",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/duty", "runtime/internal/record"},
		libs: []string{prometheus, cbor}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/sqlite",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/record", "sqlitevfs"},
		libs: []string{prometheus}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/task",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/record", "workflow", "workflow/lazy"},
		libs: []string{prometheus}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/conn",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/record", "runtime/internal/part/event"}, libs: []string{prometheus}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/run",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel", "runtime/internal/call",
			"runtime/internal/survey", "runtime/internal/duty", "runtime/internal/record", "workflow", "runtime/internal/part/queue", "runtime/internal/part/mail", "runtime/internal/part/task"}, libs: []string{prometheus, cbor, xxh3}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/admin",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/record", "runtime/internal/part/admin/control"}, libs: []string{prometheus}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/trace",
		uses: []string{"actor/host", "engine", "keyspace", "traces", "runtime/internal/audit",
			"runtime/internal/kernel", "runtime/internal/call", "runtime/internal/survey"}, libs: []string{prometheus},
		never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/usage",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/kernel", "runtime/internal/call",
			"runtime/internal/survey", "runtime/internal/record"}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/state",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call"}, libs: []string{cbor}, never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/part/token",
		uses: []string{"actor/host", "engine", "keyspace", "runtime/internal/audit", "runtime/internal/kernel",
			"runtime/internal/call", "runtime/internal/survey", "runtime/internal/record"}, libs: []string{prometheus},
		never: []string{"net/http", nats}, why: "a part"},
	{pkg: "runtime/internal/node",
		uses: []string{"actor/host", "runtime/internal/timed", "engine", "keyspace", "sqlitevfs", "workflow",
			"runtime/internal/record", "runtime/internal/kernel", "runtime/internal/call", "runtime/internal/survey", "runtime/internal/duty", "runtime/internal/audit", "runtime/internal/part"}, never: []string{"net/http", nats}, why: "the list of parts; knows neither HTTP nor NATS"},
	{pkg: "keyspace/testutil", never: []string{"net", "os/exec"}, why: "what tests of all packages say in one line: standard library only"},
	{pkg: "runtime/internal/gateway/gatewaytest",
		uses: []string{"keyspace/testutil", "actor/host", "runtime/internal/gateway", "runtime/internal/gateway/serve",
			"runtime/internal/node/nodetest"}, never: []string{nats}, why: "opens nodes behind gateways for tests"},
	{pkg: "runtime/internal/node/nodetest",
		uses: []string{"actor/host", "engine", "runtime/internal/kernel/options",
			"runtime/internal/node"}, never: []string{"net/http", nats}, why: "opens nodes for tests"},
	{pkg: "runtime/internal/offline",
		uses: []string{"actor/host", "engine", "runtime/internal/kernel", "runtime/internal/call",
			"runtime/internal/survey", "runtime/internal/node", "runtime/internal/part"},
		never: []string{"net/http", nats}, why: "a store without a node"},
	{pkg: "runtime/internal/natspub", uses: []string{"actor/host", "engine", "keyspace"},
		libs: []string{nats, prometheus}, why: "sibling of the node and the gateway"},
	{pkg: "runtime/internal/gateway/serve", uses: []string{"actor/host"}, libs: []string{prometheus, websocket},
		never: []string{pebble, nats}, why: "what every gateway over HTTP needs; knows no gateway and no node"},
	{pkg: "runtime/internal/gateway/openapi",
		uses: []string{"actor/host", "workflow", "runtime/internal/gateway/serve"}, never: []string{pebble,
			nats}, why: "describes a node; knows no gateway"},
	{pkg: "runtime/internal/gateway/kvconnect",
		uses: []string{"actor/host", "keyspace/tuple", "runtime/internal/timed", "runtime/internal/gateway/serve",
			"runtime/internal/part/kv/v8", "runtime/internal/part/kv/value"},
		libs: []string{cbor, uuid, "google.golang.org/protobuf/encoding/protowire"}, never: []string{pebble,
			nats}, why: "translates the protocol of Deno KV to methods of actors; knows no gateway and no node"},
	{pkg: "runtime/internal/gateway/kvrest",
		uses: []string{"actor/host", "runtime/internal/timed",
			"runtime/internal/gateway/serve"}, never: []string{pebble, nats},
		why: "what interfaces of other products in plain JSON share; knows no gateway and no node"},
	{pkg: "runtime/internal/gateway/codebolt",
		uses: []string{"actor/host", "runtime/internal/gateway/serve",
			"runtime/internal/gateway/kvrest"}, libs: []string{uuid}, never: []string{pebble, nats},
		why: "translates the interface of Codebolt to methods of actors; knows no gateway and no node"},
	{pkg: "runtime/internal/gateway/keyval",
		uses: []string{"actor/host", "runtime/internal/gateway/serve",
			"runtime/internal/gateway/kvrest"}, never: []string{pebble, nats},
		why: "translates the interface of KeyVal to methods of actors; knows no gateway and no node"},
	{pkg: "runtime/internal/gateway/strata",
		uses: []string{"actor/host", "actor/kv", "runtime/internal/gateway/serve", "runtime/internal/gateway/kvrest",
			"runtime/internal/part/kv/value"}, libs: []string{cbor}, never: []string{pebble, nats},
		why: "translates the interface of Strata to methods of actors; knows no gateway and no node"},
	{pkg: "runtime/internal/gateway",
		uses: []string{"actor/host", "workflow", "runtime/internal/timed", "runtime/internal/gateway/serve",
			"runtime/internal/gateway/openapi", "runtime/internal/gateway/kvconnect", "runtime/internal/gateway/kvrest", "runtime/internal/gateway/codebolt", "runtime/internal/gateway/keyval", "runtime/internal/gateway/strata"}, libs: []string{prometheus, websocket}, never: []string{pebble, nats}, why: "serves any host.Node; knows no store"},
	{pkg: "runtime/localnats", libs: []string{nats}, never: []string{pebble}, why: "a NATS server and nothing of ours"},
	{pkg: "runtime/dashboard", never: []string{pebble, nats, prometheus}, why: "files and headers: standard library only"},
	{pkg: "runtime/cell", uses: []string{"actor", "keyspace/tuple", "runtime/internal/part/kv/value"},
		libs: []string{cbor}, never: []string{pebble, nats, prometheus,
			sqlite}, why: "an actor type like any user's: its contract and its handlers"},
	{pkg: "runtime/store", uses: []string{"actor", "engine", "runtime", "runtime/internal/part/kv/value"},
		never: []string{nats + "/nats-server"}, why: "a key-value store inside of a program: a node and the key-value store of one actor"},
	{pkg: "runtime/client", uses: []string{"actor/host"}, libs: []string{websocket},
		never: []string{pebble, nats, prometheus}, why: "a remote caller links no database"},
	{pkg: "runtime/internal/policy", why: "tests only"},
	{pkg: "runtime/internal/policy/calls", why: "a program about the sources: standard library only"},
	{pkg: "runtime/internal/policy/calls/probe", uses: []string{"actor", "runtime"}, why: "a program that is measured"},
	{pkg: "runtime/internal/policy/breaks", why: "a program about the sources: standard library only"},
	{pkg: "runtime/internal/policy/mutants", why: "a program about the sources: standard library only"},
	{pkg: "runtime", uses: []string{"actor", "engine", "keyspace", "traces", "workflow", "runtime/internal",
		"runtime/dashboard"}, libs: []string{nats, prometheus, uuid, "github.com/BurntSushi/toml"},
		never: []string{nats + "/nats-server"}, why: "wires the floors below; a program hands it a NATS server"},
	{pkg: "actor/actortest", uses: []string{"actor", "engine", "runtime", "workflow"}, why: "the runtime on a memory disk in virtual time"},
	{pkg: "runtime/cmd/cairn/internal/table", never: []string{"net", "os"}, why: "prints for people: standard library only"},
	{pkg: "runtime/cmd/cairn/internal/slip", never: []string{"net", "os"}, why: "compares names: standard library only"},
	{pkg: "runtime/cmd/cairn/internal/file", uses: []string{"runtime/cmd/cairn/internal/table"}, never: []string{"net"},
		why: "files and lines: standard library only"},
	{pkg: "runtime/cmd/cairn/internal/load", uses: []string{"actor/host", "runtime/cell"},
		never: []string{"github.com/spf13", module + "/runtime/client"}, why: "measures any host.Node: knows no command line and no store"},
	{pkg: "runtime/cmd/cairn/internal/retry", uses: []string{"actor/host"},
		never: []string{"github.com/spf13", module + "/runtime/client"}, why: "errors that go away: knows no command line and no node"},
	{pkg: "runtime/cmd/cairn/internal/bind", uses: []string{"actor/host"}, libs: []string{"github.com/spf13/pflag"},
		never: []string{module + "/runtime/client"}, why: "command lines and inputs: knows no node"},
	{pkg: "runtime/cmd/cairn/internal/many", uses: []string{"runtime/cmd/cairn/internal/table"},
		never: []string{"net", "os"}, why: "counts and shows: knows no node"},
	{pkg: "runtime/cmd/cairn/internal/work",
		uses: []string{"actor/host", "runtime/cmd/cairn/internal/table",
			"runtime/cmd/cairn/internal/retry"}, never: []string{"github.com/spf13", module + "/runtime/client"},
		why: "runs a command for each message: knows no command line and no node"},
	{pkg: "runtime/cmd/cairn/internal/shell", uses: []string{"runtime/cmd/cairn/internal"},
		libs: []string{"golang.org/x/term"}, never: []string{"net", "github.com/spf13", module + "/actor",
			module + "/runtime/client"}, why: "a shell for SQL: knows no node, no actor and no command line"},
	{pkg: "runtime/cmd/...", uses: []string{"actor", "keyspace", "runtime", "traces", "workflow"},
		libs: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term", cbor}, why: "the command"},
	{pkg: "docs/guides", uses: []string{"actor", "runtime", "workflow"}, why: "tests of the guides"},
	{pkg: "docs/examples/...", uses: []string{"actor", "runtime", "workflow", "docs/examples"},
		libs: []string{"golang.org/x/term"}, why: "what a user's program may import"},
}

// testOnly are packages that only tests may import, from any floor.
var testOnly = []string{"keyspace/testutil", "runtime/internal/gateway/gatewaytest", "workflow", "workflow/host",
	"workflow/internal/memory", "workflow/internal/rowmap", "workflow/workflowtest", "actor/actortest", "actor/host/hosttest", "runtime/internal/node/nodetest", "runtime/internal/gateway", "runtime/internal/gateway/serve", "runtime/client", "runtime/localnats", "runtime", "runtime/store", "actor", "actor/kv"}

func TestImportsFollowTheFloors(t *testing.T) {
	pkgs := parseModule(t)
	for _, p := range slices.Sorted(maps.Keys(pkgs)) {
		r := ruleFor(p)
		if r == nil {
			t.Errorf("package %s stands in no rule of the import policy", p)
			continue
		}
		for file, imports := range pkgs[p].imports {
			test := strings.HasSuffix(file, "_test.go")
			for _, imp := range imports {
				if !allowed(r, p, imp, test) {
					t.Errorf("%s imports %s, which the policy for %s (%s) does not allow", file, imp, r.pkg, r.why)
				}
			}
		}
	}
}

func TestPackagesNeverReachWhatTheyMustNot(t *testing.T) {
	pkgs := parseModule(t)
	for p := range pkgs {
		r := ruleFor(p)
		if r == nil {
			continue
		}
		for reached, via := range reach(pkgs, p) {
			for _, never := range r.never {
				if under(reached, never) {
					t.Errorf("%s reaches %s through %s, which it must never (%s)", p, reached, via, r.why)
				}
			}
		}
	}
}

// TestSiblingsOfOneFloorStayApart holds the packages of floor 4 apart from each other.
func TestSiblingsOfOneFloorStayApart(t *testing.T) {
	siblings := []string{"runtime/internal/node", "runtime/internal/natspub", "runtime/internal/gateway", "runtime/localnats"}
	pkgs := parseModule(t)
	for _, p := range siblings {
		for file, imports := range pkgs[p].imports {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, other := range siblings {
				if slices.Contains(imports, module+"/"+other) {
					t.Errorf("%s imports its sibling %s", file, other)
				}
			}
		}
	}
}

func TestEachPackageHasExactlyOneComment(t *testing.T) {
	for p, parsed := range parseModule(t) {
		if len(parsed.comments) != 1 {
			t.Errorf("package %s has %d package comments, want 1: %v", p, len(parsed.comments), parsed.comments)
		}
	}
}

func TestTopLevelHoldsWhatItShould(t *testing.T) {
	want := []string{"LICENSE", "Makefile", "README.md", "actor", "docs", "engine", "go.mod", "go.sum", "keyspace",
		"runtime", "sqlitevfs", "traces", "workflow"}
	ignored := []string{"bin", "data"} // what make run leaves behind
	entries, err := os.ReadDir(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && !slices.Contains(want, name) && !slices.Contains(ignored, name) {
			t.Errorf("%s does not belong at the top level", name)
		}
	}
}

// parsed is what the tests need of a package.
type parsed struct {
	imports  map[string][]string // by file
	comments []string            // files with a package comment
}

func parseModule(t *testing.T) map[string]*parsed {
	t.Helper()
	pkgs := make(map[string]*parsed)
	eachFile(t, parser.ImportsOnly|parser.ParseComments, func(rel string, f *ast.File) {
		dir := path.Dir(rel)
		p := pkgs[dir]
		if p == nil {
			p = &parsed{imports: make(map[string][]string)}
			pkgs[dir] = p
		}
		for _, s := range f.Imports {
			imp, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			p.imports[rel] = append(p.imports[rel], imp)
		}
		if f.Doc != nil && !strings.HasSuffix(f.Name.Name, "_test") {
			p.comments = append(p.comments, rel)
		}
	})
	return pkgs
}

// eachFile parses the Go files of the module and calls visit with each and its path.
func eachFile(t *testing.T, mode parser.Mode, visit func(rel string, f *ast.File)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, file)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if name := d.Name(); rel != "." &&
				(strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || nested(file)) || rel == "data" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
		if err == nil && !ignoredFile(f) {
			visit(rel, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// nested reports whether a directory is a module of its own.
func nested(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// ignoredFile reports whether a file is built only on request, such as the differential test
// against a C library.
func ignoredFile(f *ast.File) bool {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if c.Pos() < f.Package && strings.HasPrefix(c.Text, "//go:build ") && strings.Contains(c.Text, "fdb") {
				return true
			}
		}
	}
	return false
}

// reach returns every package that p imports, itself or through packages of the module, with the
// one that does.
func reach(pkgs map[string]*parsed, p string) map[string]string {
	seen := make(map[string]string)
	var visit func(string)
	visit = func(p string) {
		if pkgs[p] == nil {
			return
		}
		for file, imports := range pkgs[p].imports {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, imp := range imports {
				if _, ok := seen[imp]; ok {
					continue
				}
				seen[imp] = p
				if own, ok := strings.CutPrefix(imp, module+"/"); ok {
					visit(own)
				}
			}
		}
	}
	visit(p)
	return seen
}

func allowed(r *rule, p, imp string, test bool) bool {
	own, ours := strings.CutPrefix(imp, module+"/")
	switch {
	case ours && own == p:
		return test
	case ours && test && slices.Contains(testOnly, own):
		return true
	case ours:
		return slices.ContainsFunc(r.uses, func(u string) bool { return under(own, u) })
	case !strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
		return test || !slices.ContainsFunc(r.never, func(n string) bool { return under(imp, n) })
	case test:
		return true
	}
	return slices.ContainsFunc(r.libs, func(l string) bool { return under(imp, l) })
}

func ruleFor(p string) *rule {
	for i := range policy {
		r := &policy[i]
		if dir, all := strings.CutSuffix(r.pkg, "/..."); p == r.pkg || all && under(p, dir) {
			return r
		}
	}
	return nil
}

func under(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }

func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(b), "module "+module+"\n") {
			return dir
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("the module's root was not found")
		}
		dir = filepath.Dir(dir)
	}
}
