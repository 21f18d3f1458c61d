package natspub

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// A service is the micro service that serves the calls (ADR-32 of NATS). It answers questions about
// its endpoints and their statistics. It does not use package micro, which answers such questions
// to any reply subject that a client names.
type service struct {
	c        *calls
	nc       *nats.Conn
	identity micro.ServiceIdentity
	started  time.Time
	methods  []*method
	subs     []*nats.Subscription
}

func newService(c *calls, nc *nats.Conn) *service {
	return &service{c: c, nc: nc, started: time.Now().UTC(), identity: micro.ServiceIdentity{
		Name: ServiceName, ID: rand.Text(), Version: c.p.opts.Version,
		Metadata: map[string]string{"namespace": c.p.opts.Namespace, "root": c.p.opts.Root},
	}}
}

// start subscribes to the calls and to questions about the service.
func (s *service) start() error {
	var failed error
	add := func(sub *nats.Subscription, err error) {
		if failed = errors.Join(failed, err); err == nil {
			s.subs = append(s.subs, sub)
		}
	}
	for _, m := range s.methods {
		add(s.nc.QueueSubscribe(m.prefix+">", micro.DefaultQueueGroup, m.handle))
	}
	for verb, answer := range map[micro.Verb]func() any{
		micro.PingVerb:  func() any { return micro.Ping{ServiceIdentity: s.identity, Type: micro.PingResponseType} },
		micro.InfoVerb:  func() any { return s.info() },
		micro.StatsVerb: func() any { return s.stats() },
	} {
		for _, of := range [][2]string{{}, {s.identity.Name}, {s.identity.Name, s.identity.ID}} {
			subject, err := micro.ControlSubject(verb, of[0], of[1])
			if err != nil {
				return err
			}
			add(s.nc.Subscribe(subject, func(m *nats.Msg) {
				if m.Reply == "" || s.c.p.subjects.forged(m.Reply) {
					return
				}
				err := s.nc.Publish(m.Reply, mustJSON(answer()))
				if errors.Is(err, nats.ErrMaxPayload) { // there are thousands of methods
					err = s.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{
						micro.ErrorHeader: {"the answer does not fit into a message of this NATS server"}, micro.ErrorCodeHeader: {"500"},
					}})
				}
				if err != nil {
					s.c.p.log.Debug("nats: a question about the service is not answered", "error", err)
				}
			}))
		}
	}
	return failed
}

// stop ends the subscriptions once all messages that arrived are handled.
func (s *service) stop() (failed error) {
	for _, sub := range s.subs {
		failed = errors.Join(failed, sub.Drain())
	}
	return failed
}

func (s *service) info() micro.Info {
	info := micro.Info{ServiceIdentity: s.identity, Type: micro.InfoResponseType,
		Description: "durable actors", Endpoints: []micro.EndpointInfo{}}
	for _, m := range s.methods {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{
			Name: endpointName(m.typ, m.name), Subject: m.prefix + ">", QueueGroup: micro.DefaultQueueGroup,
			Metadata: map[string]string{"type": m.typ, "method": m.name, "kind": m.kind.String()},
		})
	}
	return info
}

func (s *service) stats() micro.Stats {
	stats := micro.Stats{ServiceIdentity: s.identity, Type: micro.StatsResponseType,
		Started: s.started, Endpoints: []*micro.EndpointStats{}}
	for _, m := range s.methods {
		e := &micro.EndpointStats{
			Name: endpointName(m.typ, m.name), Subject: m.prefix + ">", QueueGroup: micro.DefaultQueueGroup,
			NumRequests: int(m.requests.Load()), NumErrors: int(m.errors.Load()), ProcessingTime: time.Duration(m.nanoseconds.Load()),
		}
		if e.NumRequests > 0 {
			e.AverageProcessingTime = e.ProcessingTime / time.Duration(e.NumRequests)
		}
		if text := m.lastError.Load(); text != nil {
			e.LastError = *text
		}
		stats.Endpoints = append(stats.Endpoints, e)
	}
	return stats
}
