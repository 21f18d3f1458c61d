package supervisor

import "github.com/cairn-run/cairn/actor/host"

// Options configure a node: its kernel, and its parts.
type Options struct {
	KernelOptions
	// SQL bounds the connections of the actors' SQLite databases.
	SQL SQLOptions
}

// New makes a Supervisor. Start begins to fire alarms and recovers pending messages.
func New(o Options) (*Supervisor, error) {
	return newSupervisor(o.KernelOptions, composition{parts: parts(&o), turn: newTurn, query: newQuery})
}

// CheckLimits returns what is wrong with limits, of which zero ones have their defaults. The error is a *LimitsError.
func CheckLimits(l host.Limits) error {
	var h hooks
	for _, p := range parts(new(Options)) {
		h.add(p)
	}
	_, err := newActorLimits(l, h.limiters)
	return err
}

// parts lists the capabilities of actors. Their order is that in which a turn is sealed.
func parts(o *Options) []part {
	run, mail := newRunPart(), newMailPart()
	mail.handle(host.QueueSend, messageHandler{check: checkQueueSend, handle: takeQueueSend})
	handleRunMessages(mail)
	return []part{
		new(kvPart), newAlarmPart(), newSchedulePart(), newQueuePart(run), newSQLitePart(o.SQL), new(streamPart), new(eventPart), new(connPart),
		mail, newTaskPart(appendItems), run, new(adminPart),
	}
}

// appendItems is how a task appends to a stream.
func appendItems(t *turn, stream string, items [][]byte) (uint64, error) {
	return t.c.streamAppend(t, stream, items)
}

// A handlerTurn is what a handler is handed: the turn, and what each part lets it do.
type handlerTurn struct {
	turn
	alarmTurn
	kvTurn
	kvReads
	scheduleTurn
	scheduleReads
	streamTurn
	streamReads
	queueTurn
	eventTurn
	connTurn
	connReads
	mailTurn
	sqliteTurn
	taskTurn
	runTurn
}

var _ host.RunTurn = (*handlerTurn)(nil)
var _ observer = (*handlerTurn)(nil)

// newTurn makes a turn with the view of it that handlers get.
func newTurn() *turn {
	h := new(handlerTurn)
	t := &h.turn
	t.host = h
	h.alarmTurn.t, h.kvTurn.t, h.scheduleTurn.t, h.streamTurn.t, h.queueTurn.t, h.eventTurn.t = t, t, t, t, t, t
	h.connTurn.t, h.mailTurn.t, h.sqliteTurn.t, h.taskTurn.t, h.runTurn.t = t, t, t, t, t
	h.kvReads.of, h.scheduleReads.of, h.streamReads.of, h.connReads.of = t, t, t, t
	return t
}

// A handlerQuery is what the handler of a query is handed.
type handlerQuery struct {
	reader
	kvReads
	scheduleReads
	streamReads
	connReads
	connQuery
	queueQuery
	sqliteQuery
}

var _ host.Reader = (*handlerQuery)(nil)

// newQuery makes a query with the view of it that handlers get.
func newQuery() *reader {
	h := new(handlerQuery)
	r := &h.reader
	r.host = h
	h.kvReads.of, h.scheduleReads.of, h.streamReads.of, h.connReads.of = r, r, r, r
	h.connQuery.r, h.queueQuery.r, h.sqliteQuery.r = r, r, r
	return r
}
