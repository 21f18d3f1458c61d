package serve

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A Label is an operation in the metrics. Calls have the label of the method's kind.
type Label uint8

const (
	LabelUnknown Label = iota
	LabelAction
	LabelQuery
	LabelCreate
	LabelRead
	LabelDestroy
	LabelEvents
	LabelInspect
	LabelList
	LabelBuiltin
	LabelConnect
	LabelListen
	LabelFollow
	LabelWatch
	LabelExport
	LabelImport
	labels
)

func (l Label) String() string {
	return [labels]string{"unknown", "action", "query", "create", "read", "destroy", "events", "inspect", "list",
		"builtin", "connect", "listen", "follow", "watch", "export", "import"}[l]
}

// A Meter counts requests, and the events and messages of lasting responses.
//
// The node's own code bounds the number of time series: types and methods that no behavior names
// are counted as "unknown", regardless of clients. Handles of series are resolved once and kept, so
// counting a request costs two map lookups and a few atomic adds.
type Meter struct {
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	streams   prometheus.Gauge
	Events    prometheus.Counter // events, messages and items written to event streams
	slow      prometheus.Counter
	panics    prometheus.Counter
	sockets   prometheus.Gauge
	received  prometheus.Counter
	sent      prometheus.Counter
	Dropped   prometheus.Counter // WebSockets closed because the client did not read
	codeIndex map[host.Code]int
	types     map[string]*TypeMeter
	unknown   *TypeMeter
}

// A TypeMeter holds the handles of one actor type.
type TypeMeter struct {
	name    string
	kinds   map[string]Label
	counts  [labels][]atomic.Pointer[prometheus.Counter] // by label, then 0 for success and 1+ for the codes
	seconds [labels]atomic.Pointer[prometheus.Observer]
}

func newMeter(behaviors []*host.Behavior) *Meter {
	m := &Meter{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cairn_http_requests_total",
			Help: "Requests by actor type, operation and error code; the code is ok for success.",
		}, []string{"type", "operation", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "cairn_http_request_seconds",
			Help:    "Time from the header of a request to its reply, without event streams.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30},
		}, []string{"type", "operation"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cairn_http_event_streams",
			Help: "Streams of server-sent events that are open: of events, connections, queues and streams.",
		}),
		Events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_http_events_total", Help: "Events, messages and items written to event streams.",
		}),
		slow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_http_event_streams_slow_total", Help: "Event streams closed because the client did not read.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_http_panics_total", Help: "Requests that ended in a panic.",
		}),
		sockets: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cairn_http_websockets", Help: "WebSockets that are open.",
		}),
		received: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_http_websocket_messages_received_total", Help: "Messages received over WebSockets.",
		}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_http_websocket_messages_sent_total", Help: "Messages queued to be written to WebSockets.",
		}),
		Dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_http_websockets_slow_total", Help: "WebSockets closed because the client did not read.",
		}),
		codeIndex: make(map[host.Code]int),
		types:     make(map[string]*TypeMeter),
	}
	for i, c := range host.Codes() {
		m.codeIndex[c] = i + 1
	}
	m.unknown = m.newType("unknown")
	for _, b := range behaviors {
		t := m.newType(b.Type)
		for _, method := range b.Methods {
			switch method.Kind {
			case host.Action:
				t.kinds[method.Name] = LabelAction
			case host.Query:
				t.kinds[method.Name] = LabelQuery
			case host.Creation:
				t.kinds[method.Name] = LabelCreate
			}
		}
		m.types[b.Type] = t
	}
	return m
}

func (m *Meter) newType(name string) *TypeMeter {
	t := &TypeMeter{name: name, kinds: make(map[string]Label)}
	for i := range t.counts {
		t.counts[i] = make([]atomic.Pointer[prometheus.Counter], len(m.codeIndex)+1)
	}
	return t
}

func (m *Meter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.seconds, m.streams, m.Events, m.slow, m.panics,
		m.sockets, m.received, m.sent, m.Dropped}
}

// register registers all collectors or none.
func (m *Meter) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	var done []prometheus.Collector
	for _, c := range m.collectors() {
		if err := r.Register(c); err != nil {
			for _, d := range done {
				r.Unregister(d)
			}
			return errors.Join(errors.New("gateway: metrics are not registered"), err)
		}
		done = append(done, c)
	}
	return nil
}

func (m *Meter) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.collectors() {
		r.Unregister(c)
	}
}

// Type returns the handles of an actor type, or of "unknown" if no behavior declares it.
func (m *Meter) Type(name string) *TypeMeter {
	if t := m.types[name]; t != nil {
		return t
	}
	return m.unknown
}

// Kind returns the label of a call of a method.
func (t *TypeMeter) Kind(name string) Label {
	if method.BuiltIn(name) {
		return LabelBuiltin
	}
	return t.kinds[name]
}

// Count counts a request with its time and code, "" for success.
func (m *Meter) Count(t *TypeMeter, l Label, code host.Code, took time.Duration) {
	i, name := 0, "ok"
	if code != "" {
		if !code.Known() {
			code = host.Internal
		}
		i, name = m.codeIndex[code], string(code)
	}
	c := t.counts[l][i].Load()
	if c == nil {
		made := m.requests.WithLabelValues(t.name, l.String(), name)
		c = &made
		t.counts[l][i].Store(c)
	}
	(*c).Inc()
	switch l {
	case LabelEvents, LabelConnect, LabelListen, LabelFollow, LabelWatch, LabelExport, LabelImport:
		return // its time depends only on the client
	}
	s := t.seconds[l].Load()
	if s == nil {
		made := m.seconds.WithLabelValues(t.name, l.String())
		s = &made
		t.seconds[l].Store(s)
	}
	(*s).Observe(took.Seconds())
}
