package natspub

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// askSubject is where JetStream answers with the names of the streams that cover a subject.
const askSubject = "$JS.API.STREAM.NAMES"

// cover returns the cover of a subject, which may not be known yet. It is for all keys of an actor
// type together, because most streams take all of them. If exact, for a message that failed before,
// it is for the subject itself.
func (s *streams) cover(subject string, exact bool, now time.Time) *cover {
	if cv := s.coverage[subject]; cv != nil && cv.fresh(now) && cv.known {
		return cv
	}
	name := subject
	if !exact {
		name = s.l.p.subjects.kind(subject) + ".>"
	}
	cv := s.coverage[name]
	if cv != nil && (cv.asking || cv.fresh(now)) {
		return cv
	}
	if cv == nil {
		if len(s.coverage) >= maxCoverage {
			for key, old := range s.coverage {
				if !old.asking {
					delete(s.coverage, key)
				}
			}
		}
		cv = &cover{subject: name}
		s.coverage[name] = cv
	}
	cv.known = false
	return cv
}

// kind removes the key from a subject of changes.
func (s Subjects) kind(subject string) string {
	end := len(s.root)
	for range 4 { // namespace, family, type, name
		end++
		n := strings.IndexByte(subject[end:], '.')
		if n < 0 {
			return subject
		}
		end += n
	}
	return subject[:end]
}

func (cv *cover) fresh(now time.Time) bool { return cv.known && now.Before(cv.until) }

// ask requests the streams that cover a subject, unless a request is on the way, and makes the lane
// wait for the answer.
func (s *streams) ask(ln *lane, cv *cover, now time.Time) error {
	ln.flight = true
	cv.waiting = append(cv.waiting, ln)
	if cv.asking {
		return nil
	}
	body, err := json.Marshal(map[string]string{"subject": cv.subject})
	if err != nil {
		return err
	}
	s.token++
	if err := s.nc.PublishRequest(askSubject, s.inbox+strconv.FormatUint(s.token, 36), body); err != nil {
		return err
	}
	cv.asking = true
	s.fly(&flight{sent: now, ask: cv})
	return nil
}

// learn handles the answer. Anything but a list of streams counts as covered; the message is sent.
func (s *streams) learn(cv *cover, m *nats.Msg) {
	var answer struct {
		Total *int            `json:"total"`
		Error json.RawMessage `json:"error"`
	}
	now := time.Now()
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Error != nil || answer.Total == nil {
		s.answered(cv, false, uncoveredFor, now)
		return
	}
	if *answer.Total > 0 {
		s.answered(cv, false, coveredFor, now)
		return
	}
	if !cv.none {
		s.l.p.log.Warn("nats: no stream covers a subject; changes are published without, durable events wait", "subject", cv.subject)
	}
	s.answered(cv, true, uncoveredFor, now)
}

// answered stores the answer and wakes the lanes that wait for it.
func (s *streams) answered(cv *cover, none bool, valid time.Duration, now time.Time) {
	cv.known, cv.none, cv.asking, cv.until = true, none, false, now.Add(valid)
	for _, ln := range cv.waiting {
		ln.flight = false
		if len(ln.items) > 0 {
			s.l.idles(ln.items[0])
		}
		s.rouse(ln)
	}
	cv.waiting = nil
}
