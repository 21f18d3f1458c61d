package natspub

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/engine"
)

// Headers of published messages, in addition to the CloudEvents headers.
const (
	// HeaderTraceparent is the W3C trace context of the turn that made the change.
	HeaderTraceparent = "traceparent"
	// HeaderOmitted says why the payload of a message was omitted: its value is "too_large".
	// HeaderSize is then the payload's size in bytes.
	HeaderOmitted = "Cairn-Data-Omitted"
	HeaderSize    = "Cairn-Data-Size"
)

// The CloudEvents attributes as headers. NATS keeps the case of header names; these are in lower
// case.
const (
	headerSpecVersion = "ce-specversion"
	headerID          = "ce-id"
	headerType        = "ce-type"
	headerSource      = "ce-source"
	headerTime        = "ce-time"
	headerContentType = "ce-datacontenttype"
)

// typePrefix begins the CloudEvents type of every message.
const typePrefix = "run.cairn."

// timeFormat is RFC 3339 in UTC with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z"

// An envelope writes the messages of change sets into one reused message: a call that publishes
// copies the message before it returns. One goroutine uses it.
//
// Claims of the messages:
//
//  1. Nats-Msg-Id and ce-id are equal and name one change forever: <actor
//     id>/<version>/<index>/<time>. The time, in Unix milliseconds, is for restored backups, which
//     use versions again. A change without a commit has the version of the commit before it, so its
//     index consists of the transition, the time and a number.
//  2. A message depends only on the change set, so a second publication has the same bytes.
type envelope struct {
	subjects  Subjects
	namespace string

	msg     nats.Msg
	values  [16]string // the only value of each header
	set     *engine.ChangeSet
	rowless uint64
	id      []byte // <actor id>/<version>/
	source  string
	time    string
	buf     []byte
}

// begin sets the change set of the messages to write. rowless is the number of a set without a
// commit of its own, else 0.
func (e *envelope) begin(set *engine.ChangeSet, rowless uint64) {
	if e.set == set {
		return
	}
	e.set, e.rowless = set, rowless
	e.id = set.ID.AppendString(e.id[:0])
	e.id = append(e.id, '/')
	e.id = strconv.AppendUint(e.id, uint64(set.Version), 10)
	e.id = append(e.id, '/')
	namespace := set.Identity.Namespace
	if namespace == "" {
		namespace = e.namespace
	}
	e.buf = append(appendPathPart(append(e.buf[:0], '/'), namespace), '/')
	e.buf = appendPathPart(e.buf, set.Identity.Type)
	for _, part := range set.Identity.Key {
		e.buf = appendPathPart(append(e.buf, '/'), part)
	}
	source := len(e.buf)
	e.buf = time.UnixMilli(set.TimeMS).UTC().AppendFormat(e.buf, timeFormat)
	written := string(e.buf)
	e.source, e.time = written[:source], written[source:]
}

// message returns the message of one change. It is valid until the next call. REQUIRES: begin.
func (e *envelope) message(index int) *nats.Msg {
	c := &e.set.Changes[index]
	family, name := subjectOf(c)
	namespace := e.set.Identity.Namespace
	if namespace == "" {
		namespace = e.namespace
	}
	// All texts of the message are slices of one string.
	e.buf = e.subjects.append(e.buf[:0], namespace, family, e.set.Identity.Type, name, e.set.Identity.Key)
	subject := len(e.buf)
	e.buf = append(e.buf, e.id...)
	if e.rowless > 0 {
		e.buf = append(appendHeaderText(e.buf, name), '-')
		e.buf = append(strconv.AppendInt(e.buf, e.set.TimeMS, 10), '-')
		e.buf = strconv.AppendUint(e.buf, e.rowless, 10)
	} else {
		e.buf = append(strconv.AppendInt(e.buf, int64(index), 10), '/')
		e.buf = strconv.AppendInt(e.buf, e.set.TimeMS, 10)
	}
	id := len(e.buf)
	e.buf = append(append(e.buf, typePrefix...), family...)
	e.buf = appendHeaderText(append(e.buf, '.'), e.set.Identity.Type)
	e.buf = appendHeaderText(append(e.buf, '.'), name)
	written := string(e.buf)

	e.msg.Subject = written[:subject]
	e.msg.Reply = ""
	e.msg.Data = c.Data
	if len(c.Data) == 0 {
		e.msg.Data = jsonNull
	}
	if e.msg.Header == nil {
		e.msg.Header = make(nats.Header, len(e.values))
		e.put(0, headerSpecVersion, "1.0")
		e.put(5, headerContentType, "application/json")
	}
	e.put(1, headerID, written[subject:id])
	e.put(2, headerType, written[id:])
	e.put(3, headerSource, e.source)
	e.put(4, headerTime, e.time)
	e.put(6, nats.MsgIdHdr, written[subject:id])
	e.put(7, HeaderTraceparent, e.set.Traceparent)
	e.put(8, HeaderOmitted, "")
	e.put(9, HeaderSize, "")
	return &e.msg
}

// omit removes the payload from the last message and sets headers that say so.
func (e *envelope) omit() {
	e.put(8, HeaderOmitted, "too_large")
	e.put(9, HeaderSize, strconv.Itoa(len(e.msg.Data)))
	e.msg.Data = nil
}

// put sets a header, or removes it if the value is empty. Its slice of values is part of an array,
// so changing an existing header only writes its value.
func (e *envelope) put(slot int, name, value string) {
	was := e.values[slot]
	e.values[slot] = value
	switch {
	case value == "" && was != "":
		delete(e.msg.Header, name)
	case value != "" && was == "":
		e.msg.Header[name] = e.values[slot : slot+1 : slot+1]
	}
}

var jsonNull = []byte("null")

// subjectOf returns the family of subjects of a change, and the token after the actor type.
func subjectOf(c *engine.Change) (family, name string) {
	switch c.Kind {
	case engine.ChangeEvent:
		return familyEvent, c.Name
	case engine.ChangeLife:
		return familyLife, c.Name
	case engine.ChangeAudit:
		return familyAudit, c.Name
	}
	return familyChange, c.Kind.String()
}

// appendHeaderText appends the value of a CloudEvents attribute in the form of the NATS binding:
// printable ASCII unchanged; all else, and space, double quote and percent sign, as %XX per byte.
func appendHeaderText(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7F || c == '"' || c == '%' {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&0x0F])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// appendPathPart appends one segment of the source, a URI reference: unreserved characters
// unchanged, every other byte as %XX. The percent sign of such an escape is not escaped again for
// the header, because it has its meaning in the URI.
func appendPathPart(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '~':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&0x0F])
		}
	}
	return dst
}
