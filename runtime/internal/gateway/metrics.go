package gateway

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// An operation label of the metrics. Calls are counted as what they run.
type label uint8

const (
	labelUnknown label = iota
	labelAction
	labelQuery
	labelCreate
	labelRead
	labelDestroy
	labelEvents
	labelInspect
	labelList
	labelBuiltin
	labelConnect
	labelListen
	labelFollow
	labelExport
	labelImport
	labels
)

func (l label) String() string {
	return [labels]string{"unknown", "action", "query", "create", "read", "destroy", "events", "inspect", "list",
		"builtin", "connect", "listen", "follow", "export", "import"}[l]
}

// lasting reports whether requests of the label last as long as their clients like, so that their time says nothing.
func (l label) lasting() bool {
	return l == labelEvents || l == labelConnect || l == labelListen || l == labelFollow || l == labelExport || l == labelImport
}

// A meter counts requests.
//
// The number of time series is bounded by what the node's own code declares: types and methods that no behavior names
// are counted as "unknown", whatever clients send. Handles of series are resolved once and kept, so that counting a
// request costs two map lookups and a few atomic adds.
type meter struct {
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	streams   prometheus.Gauge
	events    prometheus.Counter
	slow      prometheus.Counter
	panics    prometheus.Counter
	sockets   prometheus.Gauge
	received  prometheus.Counter
	sent      prometheus.Counter
	dropped   prometheus.Counter
	codeIndex map[host.Code]int
	types     map[string]*typeMeter
	unknown   *typeMeter
}

// A typeMeter holds the handles of one actor type.
type typeMeter struct {
	name    string
	kinds   map[string]label
	counts  [labels][]atomic.Pointer[prometheus.Counter] // by label, then 0 for success and 1+ for the codes
	seconds [labels]atomic.Pointer[prometheus.Observer]
}

func newMeter(behaviors []*host.Behavior) *meter {
	m := &meter{
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
		events: prometheus.NewCounter(prometheus.CounterOpts{
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
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cairn_http_websockets_slow_total", Help: "WebSockets closed because the client did not read.",
		}),
		codeIndex: make(map[host.Code]int),
		types:     make(map[string]*typeMeter),
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
				t.kinds[method.Name] = labelAction
			case host.Query:
				t.kinds[method.Name] = labelQuery
			case host.Creation:
				t.kinds[method.Name] = labelCreate
			}
		}
		m.types[b.Type] = t
	}
	return m
}

func (m *meter) newType(name string) *typeMeter {
	t := &typeMeter{name: name, kinds: make(map[string]label)}
	for i := range t.counts {
		t.counts[i] = make([]atomic.Pointer[prometheus.Counter], len(m.codeIndex)+1)
	}
	return t
}

func (m *meter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.seconds, m.streams, m.events, m.slow, m.panics,
		m.sockets, m.received, m.sent, m.dropped}
}

// register registers all collectors or none.
func (m *meter) register(r prometheus.Registerer) error {
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

func (m *meter) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.collectors() {
		r.Unregister(c)
	}
}

func (m *meter) actorType(name string) *typeMeter {
	if t := m.types[name]; t != nil {
		return t
	}
	return m.unknown
}

// method is the label of a method of an actor type.
func (m *meter) method(typ, name string) label {
	if method.BuiltIn(name) {
		return labelBuiltin
	}
	return m.actorType(typ).kinds[name]
}

// count counts a request that took so long and ended with a code, "" for success.
func (m *meter) count(t *typeMeter, l label, code host.Code, took time.Duration) {
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
	if l.lasting() {
		return
	}
	s := t.seconds[l].Load()
	if s == nil {
		made := m.seconds.WithLabelValues(t.name, l.String())
		s = &made
		t.seconds[l].Store(s)
	}
	(*s).Observe(took.Seconds())
}
