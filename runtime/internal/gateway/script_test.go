package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	hexadecimal "encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

// Each file of testdata holds scenarios: exchanges with a gateway in front of rooms, and the
// results. See testdata/README.md. `go test -run Scripts -rewrite ./runtime/internal/gateway`
// writes the results anew.

func TestRequestScripts(t *testing.T)    { runScripts(t, "requests") }
func TestAccessScripts(t *testing.T)     { runScripts(t, "access") }
func TestEventScripts(t *testing.T)      { runScripts(t, "events") }
func TestFollowScripts(t *testing.T)     { runScripts(t, "follow") }
func TestEntryScripts(t *testing.T)      { runScripts(t, "entries") }
func TestWatchScripts(t *testing.T)      { runScripts(t, "watch") }
func TestFeedScripts(t *testing.T)       { runScripts(t, "feed") }
func TestKVStoreScripts(t *testing.T)    { runScripts(t, "kvstore") }
func TestKeyValScripts(t *testing.T)     { runScripts(t, "keyval") }
func TestWorkerScripts(t *testing.T)     { runScripts(t, "workers") }
func TestConnectionScripts(t *testing.T) { runScripts(t, "connections") }
func TestSessionScripts(t *testing.T)    { runScripts(t, "sessions") }
func TestDatabaseScripts(t *testing.T)   { runScripts(t, "databases") }

func runScripts(t *testing.T, file string) {
	datadriven.RunTest(t, "testdata/"+file, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "scenario" || len(d.CmdArgs) != 1 {
			d.Fatalf(t, "a file holds scenarios with names, not %q", d.Cmd)
		}
		out := d.Expected // of a scenario that -run excludes
		t.Run(d.CmdArgs[0].Key, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{t: t, at: d.Pos, clients: make(map[string]*client), faults: make(map[string]error),
					gates: make(map[string]chan struct{}), ids: make(map[string]string), names: make(map[string]string)}
				plain, sql := hosttest.Room(), hosttest.Room()
				plain.Type, plain.Methods = "plain", nil
				sql.Type, sql.OpenSQL = "sql", true
				s.setup.Behaviors = []*host.Behavior{hosttest.Room(), plain, sql}
				out = s.play(d.Input)
			})
		})
		return out
	})
}

// roomA is the room that "do" calls.
var roomA = host.Address{Type: "room", Key: []string{"a"}}

// A scene is the state of a scenario.
type scene struct {
	t     *testing.T
	at    string // the position in its file
	setup setup
	node  *hosttest.Recorder
	g     *Gateway // nil before the first command that needs it
	l     *pipeListener
	out   strings.Builder

	clients map[string]*client // by name

	ids, names map[string]string // of lives, connections, tokens and receipts

	mu     sync.Mutex
	faults map[string]error         // of operations and methods
	gates  map[string]chan struct{} // where calls of a method wait
	said   []string
}

// A client has a WebSocket or reads a response.
type client struct {
	name  string
	conn  net.Conn
	ws    *websocket.Conn
	stall chan struct{} // closed when it reads again; nil while it reads

	mu    sync.Mutex
	heard []string
}

func (c *client) hears(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, line)
}

// play runs the commands of a scenario and returns their output.
func (s *scene) play(input string) string {
	for line := range strings.Lines(input) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "# ") {
			s.print(s.command(s.expand(line)))
		}
	}
	for _, gate := range s.gates {
		close(gate)
	}
	for _, c := range s.clients {
		c.conn.Close()
		c.read()
	}
	return counted(strings.Split(s.out.String(), "\n"))
}

// counted writes adjacent equal lines once, with their number.
func counted(lines []string) (out string) {
	for i, n := 0, 1; i < len(lines)-1; i, n = i+n, 1 {
		for lines[i+n] == lines[i] {
			n++
		}
		if n > 1 {
			out += fmt.Sprint(n, " times ")
		}
		out += lines[i] + "\n"
	}
	return out
}

// read ends a pause of reading.
func (c *client) read() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stall != nil {
		close(c.stall)
		c.stall = nil
	}
}

// print adds a result, and the messages of clients and the hook in the meantime.
func (s *scene) print(result string) {
	synctest.Wait()
	s.mu.Lock()
	lines := append(s.said, result)
	s.said = nil
	s.mu.Unlock()
	var names []string
	for name := range s.clients {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c := s.clients[name]
		c.mu.Lock()
		beats := 0
		arrange(c.heard)
		for i, line := range c.heard {
			if line == ":" {
				if beats++; i+1 < len(c.heard) && c.heard[i+1] == ":" {
					continue
				}
				line, beats = fmt.Sprintf(": x%d", beats), 0
			}
			lines = append(lines, name+" < "+line)
		}
		c.heard = nil
		c.mu.Unlock()
	}
	for _, line := range lines {
		if line = strings.TrimRight(s.shorten(line), " \n"); line != "" {
			s.out.WriteString(line + "\n")
		}
	}
}

// arrange moves replies to the front, in the order of their ids, because replies and events come
// from several goroutines. No line moves across a bye.
func arrange(heard []string) {
	if i := slices.IndexFunc(heard, func(line string) bool { return strings.HasPrefix(line, `{"bye"`) }); i >= 0 {
		arrange(heard[i+1:])
		heard = heard[:i]
	}
	slices.SortStableFunc(heard, func(a, b string) int {
		switch first, second := strings.HasPrefix(a, `{"id":`), strings.HasPrefix(b, `{"id":`); {
		case first && second:
			return strings.Compare(a, b)
		case first:
			return -1
		case second:
			return 1
		}
		return 0
	})
}

var (
	repeat = regexp.MustCompile(`\{([^{}*]+)\*(\d+)\}`)
	alias  = regexp.MustCompile(`\b(LIFE|[ctr])\d\b`)
	// lives
	unstable = regexp.MustCompile(`"error_id":"[^"]+"|"traceparent":"[^"]+",|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|` +
		// connections, their tokens, and receipts
		`\b[A-Z2-7]{26}(\.[\w-]{22})?|"[A-D][\w-]{11}"|^id: [A-D][\w-]{11}\b|< id: [A-D][\w-]{11}\b`)
)

// exampleLife is a life in the messages of errors.
const exampleLife = "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"

// expand replaces "{x*300}" and the names of ids. A life without an actor has a name as well.
func (s *scene) expand(line string) string {
	line = repeat.ReplaceAllStringFunc(line, func(m string) string {
		p := repeat.FindStringSubmatch(m)
		n, _ := strconv.Atoi(p[2])
		return strings.Repeat(p[1], n)
	})
	return alias.ReplaceAllStringFunc(line, func(name string) string {
		if n, ok := strings.CutPrefix(name, "LIFE"); ok && s.ids[name] == "" {
			s.names["00000000-0000-8000-8000-00000000000"+n], s.ids[name] = name, "00000000-0000-8000-8000-00000000000"+n
		}
		return cmp.Or(s.ids[name], name)
	})
}

// shorten is the reverse of expand. Ids have numbers in the order of their output, and a token has
// the number of its connection.
func (s *scene) shorten(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); {
		n := 1
		for i+n < len(line) && line[i+n] == line[i] {
			n++
		}
		if n < 30 {
			b.WriteString(line[i : i+n])
		} else {
			fmt.Fprintf(&b, "{%c*%d}", line[i], n)
		}
		i += n
	}
	// A turn and its caller have the same deadline.
	text := strings.ReplaceAll(b.String(), "the caller's deadline passed", "the deadline passed")
	return unstable.ReplaceAllStringFunc(text, func(id string) string {
		connection, _, token := strings.Cut(id, ".")
		switch {
		case id == exampleLife:
			return id
		case strings.HasPrefix(id, `"error_id"`):
			return `"error_id":"ID"`
		case strings.HasPrefix(id, `"traceparent"`): // a message has it only if the call that sent it was recorded
			return ""
		case strings.Contains(id, "id: "):
			before, receipt, _ := strings.Cut(id, "id: ")
			return before + "id: " + s.name("r", receipt)
		case id[0] == '"':
			return `"` + s.name("r", id[1:len(id)-1]) + `"`
		case token:
			name := "t" + s.name("c", connection)[1:]
			s.ids[name] = id
			return name
		case len(id) == len(exampleLife):
			return s.name("LIFE", id)
		}
		return s.name("c", id)
	})
}

// name returns the name of an id: its kind and a number.
func (s *scene) name(kind, id string) string {
	for n := 1; s.names[id] == ""; n++ {
		if name := kind + strconv.Itoa(n); s.ids[name] == "" {
			s.names[id], s.ids[name] = name, id
		}
	}
	return s.names[id]
}

// start makes the gateway.
func (s *scene) start() {
	if s.g != nil {
		return
	}
	s.node = nodetest.Open(s.t, s.setup.Behaviors...)
	s.node.Before = s.before
	if s.setup.Node == nil {
		s.setup.Node = s.node
	}
	s.setup.Logger = slog.New(slog.DiscardHandler)
	s.setup.Health = func() error { return s.fault("health") }
	s.g = newGateway(s.t, s.setup)
	s.l = launch(s.t, s.g)
}

// note keeps a line for the beginning of the next result.
func (s *scene) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, line)
}

func (s *scene) fault(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults[name]
}

// before runs before an operation of the node, or a call of a method.
func (s *scene) before(ctx context.Context, op string, r *host.Request) error {
	if r != nil {
		s.mu.Lock()
		gate := s.gates[r.Method]
		s.mu.Unlock()
		if gate != nil {
			if r.Order != nil {
				r.Order.Placed()
			}
			select {
			case <-gate:
			case <-ctx.Done():
				s.note(fmt.Sprintf("the call of %s ends: %v", r.Method, ctx.Err()))
			}
		}
		op = r.Method
	}
	err := s.fault(op)
	if err != nil && err.Error() == "panic" {
		panic("secret")
	}
	return err
}

// authorize is the hook: it prints its request, and "fail hook:OPERATION" makes it refuse.
func (s *scene) authorize(_ context.Context, r serve.AuthRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errorIf(s.t, r.RemoteAddr == "", "the hook gets no address")
	s.said = append(s.said, strings.TrimSpace(fmt.Sprintf("hook: %s %s %q %s %s",
		r.Operation, r.Type, r.Key, r.Method, r.Header.Get("Authorization"))))
	if r.Header.Get("Role") == "reader" && r.Operation == serve.Operate {
		return errors.New("operators only")
	}
	return s.faults["hook:"+string(r.Operation)]
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "SOCKET"}

// command runs a line and returns its output.
func (s *scene) command(line string) string {
	w := strings.Fields(line)
	rest := func(n int) string { return strings.Join(w[n:], " ") }
	switch {
	case w[0] == "gate":
		for _, field := range w[1:] {
			s.set(field)
		}
		return ""
	case line == "room kv": // with an open store, and the queue of KeyVal
		b := s.setup.Behaviors[0]
		b.OpenKV, b.Queues = true, append(b.Queues, host.Queue{Name: "kv"})
		return ""
	case w[0] == "room": // fields of the behavior
		for _, field := range w[1:] {
			fill(s.t, s.setup.Behaviors[0], field)
		}
		return ""
	}
	s.start()
	c := s.clients[w[0]]
	switch {
	case slices.Contains(methods, w[0]):
		return s.request(line)
	case len(w) > 3 && w[1] == "=" && slices.Contains(methods, w[2]):
		s.open(w[0], rest(2))
	case c != nil && len(w) > 1:
		return s.tell(c, w, strings.TrimPrefix(line, w[0]+" "+w[1]+" "))
	case w[0] == "fail": // fail OPERATION CODE MESSAGE; without a code it succeeds again
		var err error
		if len(w) > 2 {
			e := host.Errorf(host.Code(w[2]), "%s", rest(3))
			if err = e; w[2] == "plain" || w[2] == "panic" {
				err = errors.New(w[2])
			} else if e.Code == host.ActorPaused {
				err = e.With("retry_after_ms", "2500").Retry()
			}
			err = fmt.Errorf("%w", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults[w[1]] = err
	case w[0] == "hold":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gates[w[1]] = make(chan struct{})
	case w[0] == "release": // one call that is held, or all
		gate := s.gates[w[1]]
		if len(w) > 2 {
			close(gate)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.gates, w[1])
		} else {
			select {
			case gate <- struct{}{}:
			default:
				return "no call of " + w[1] + " waits"
			}
		}
	case w[0] == "do": // a direct call of the room a
		r, err := s.node.Call(s.t.Context(), &host.Request{Address: roomA, Method: w[1], Codec: host.JSON, Input: []byte(rest(2))})
		if err != nil {
			return err.Error()
		}
		if w[1] == host.QueueReceive || w[1] == host.QueueAck {
			return string(r.Output)
		}
	case w[0] == "destroy":
		if err := s.node.Destroy(s.t.Context(), roomA); err != nil {
			return err.Error()
		}
	case w[0] == "told": // the requests to the node
		return strings.Join(s.node.Told(), "\n")
	case w[0] == "requests": // all calls, with all fields
		var lines []string
		for _, r := range s.node.Requests() {
			lines = append(lines, fmt.Sprintf("%s %q %s %s input=%x key=%q create=%t existing=%t veiled=%t trace=%q connection=%q",
				r.Type, r.Key, r.Method, r.Codec, r.Input, r.IdempotencyKey, r.Create, r.Existing, r.Veiled, r.Traceparent, r.Connection))
		}
		return strings.Join(lines, "\n")
	case w[0] == "forget":
		s.node.Told()
	case w[0] == "advance":
		d, err := time.ParseDuration(w[1])
		fatalIf(s.t, err != nil, "%v %v", s.at, err)
		time.Sleep(d)
	case w[0] == "shutdown":
		go func() { s.note(fmt.Sprint("shut down: ", s.g.front.Close())) }()
	case w[0] == "open": // lasting responses, and memory in use
		return fmt.Sprintf("%d open, %d bytes", s.g.front.Open(), s.g.front.Memory.Used())
	case w[0] == "metrics":
		var lines []string
		for text := range strings.Lines(ask(s.g, "GET", "/metrics", "", "Authorization: Bearer "+s.setup.Token).Body.String()) {
			if regexp.MustCompile(rest(1)).MatchString(text) && !strings.HasPrefix(text, "#") {
				lines = append(lines, strings.TrimSpace(text))
			}
		}
		return strings.Join(lines, "\n")
	default:
		s.t.Fatalf("%s: no command %q", s.at, line)
	}
	return ""
}

// set sets an option of the gateway.
func (s *scene) set(field string) {
	switch field {
	case "hook":
		s.setup.Authorize = s.authorize
	case "databases":
		s.setup.Databases = &fakeDatabases{s.note}
	case "runs":
		s.setup.Runs = fakeRuns{}
	default:
		fill(s.t, &s.setup, field)
	}
}

// fill sets a field of a struct, given as "Name.Name=value".
func fill(t *testing.T, v any, field string) {
	t.Helper()
	path, text, _ := strings.Cut(field, "=")
	f := reflect.ValueOf(v).Elem()
	for name := range strings.SplitSeq(path, ".") {
		f = f.FieldByName(name)
	}
	var err error
	switch f.Interface().(type) {
	case time.Duration:
		var d time.Duration
		d, err = time.ParseDuration(text)
		f.SetInt(int64(d))
	case string:
		f.SetString(text)
	case []string:
		f.Set(reflect.ValueOf(strings.Split(text, ",")))
	case bool:
		f.SetBool(text == "true")
	default:
		var n int
		n, err = strconv.Atoi(text)
		f.SetInt(int64(n))
	}
	must(t, err)
}

// unhex returns text, or the bytes of a text that begins with "hex:".
func unhex(t *testing.T, text string) string {
	t.Helper()
	if digits, ok := strings.CutPrefix(text, "hex:"); ok {
		b, err := hexadecimal.DecodeString(digits)
		must(t, err)
		return string(b)
	}
	return text
}

// parts splits "METHOD PATH BODY ;; Header: value ;; Header: value". A body that begins with "hex:"
// is in hexadecimal.
func parts(t *testing.T, line string) (method, path, body string, headers []string) {
	all := strings.Split(line, " ;; ")
	w := strings.SplitN(all[0], " ", 3)
	if len(w) > 2 {
		body = w[2]
		body = unhex(t, body)
	}
	for _, h := range all[1:] {
		if strings.HasSuffix(h, ":") {
			h += " " // an empty value
		}
		headers = append(headers, h)
	}
	return w[0], w[1], body, headers
}

// shown lists the headers of responses that scenarios print.
var shown = []string{"Allow", "Cairn-Version", "Idempotency-Replayed", "Location", "Retry-After", "WWW-Authenticate", "Connection",
	"Vary", "Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers",
	"Access-Control-Allow-Private-Network", "Access-Control-Allow-Credentials", "Content-Disposition", "Cache-Control", "X-Content-Type-Options"}

// heading prints the status of a response and its headers.
func heading(status int, h http.Header) string {
	text := strconv.Itoa(status)
	for _, name := range shown {
		if v := h.Get(name); v != "" {
			text += fmt.Sprintf(" %s: %s;", name, v)
		}
	}
	if typ := h.Get("Content-Type"); typ != "" && typ != "application/json" {
		text += " " + typ + ";"
	}
	return strings.TrimSuffix(strings.Replace(text, "Cache-Control: no-store; X-Content-Type-Options: nosniff", "no-store", 1), ";")
}

// request sends a request directly to the handler and prints the response.
func (s *scene) request(line string) string {
	method, path, body, headers := parts(s.t, line)
	w := ask(s.g, method, path, body, headers...)
	text := w.Body.Bytes()
	errorIf(s.t, w.Code >= 400 && method != "HEAD" && errorOf(s.t, w).Code == "" && !strings.Contains(path, "/keyval/"),
		"%s: %s: no code in %q", s.at, line, text)
	if w.Header().Get("Content-Type") == "application/cbor" {
		text = fmt.Appendf(nil, "hex:%x", text)
	}
	if len(text) > 3000 && !bytes.Contains(text, []byte("xxxx")) {
		text = text[:60]
	}
	return heading(w.Code, w.Header()) + " " + string(text)
}

// open sends a request over a connection, or opens a WebSocket, and prints all output until the
// end.
func (s *scene) open(name, line string) {
	method, path, body, headers := parts(s.t, line)
	c := &client{name: name, conn: s.l.dial()}
	s.clients[name] = c
	if method != "SOCKET" {
		if !strings.Contains(strings.Join(headers, "\n"), "Content-Length:") && !slices.Contains(headers, "Transfer-Encoding: chunked") {
			headers = append(headers, fmt.Sprint("Content-Length: ", len(body)))
		}
		fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s", method, path,
			strings.Join(append(headers, ""), "\r\n"), body)
		go c.stream()
		return
	}
	protocols := []string{Subprotocol}
	h := http.Header{}
	for _, line := range headers {
		if name, value, _ := strings.Cut(line, ": "); name == "Protocols" {
			protocols = strings.Fields(value)
		} else {
			h.Add(name, value)
		}
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return c.conn, nil }}
	ws, res, err := websocket.Dial(s.t.Context(), "ws://localhost"+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: h, Subprotocols: protocols,
	})
	if err != nil {
		text, _ := io.ReadAll(res.Body)
		c.hears(heading(res.StatusCode, res.Header) + " " + string(text))
		return
	}
	p := res.Header.Get("Sec-WebSocket-Protocol")
	errorIf(s.t, p != Subprotocol && p != "", "%s: the subprotocol is %q", s.at, p)
	ws.SetReadLimit(-1)
	c.ws = ws
	if body != "" { // the first message
		s.tell(c, []string{name, ">"}, body)
	}
	go c.listen()
}

// wait waits while the client does not read.
func (c *client) wait() {
	c.mu.Lock()
	stall := c.stall
	c.mu.Unlock()
	if stall != nil {
		<-stall
	}
}

// stream reads a response: blocks of events, or all of it.
func (c *client) stream() {
	res, err := http.ReadResponse(bufio.NewReader(c.conn), nil)
	if err != nil {
		c.hears(err.Error())
		return
	}
	if res.Header.Get("Content-Type") != "text/event-stream" {
		text, err := io.ReadAll(res.Body)
		c.hears(heading(res.StatusCode, res.Header) + " " + string(text))
		if err != nil {
			c.hears(err.Error())
		}
		return
	}
	r := bufio.NewReader(res.Body)
	var block []string
	for {
		c.wait()
		line, err := r.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		switch {
		case err == io.EOF:
			c.hears("end")
			return
		case err != nil:
			return
		case line == "":
			c.hears(strings.Join(block, " | "))
			block = nil
		default:
			block = append(block, line)
		}
	}
}

// listen reads a WebSocket.
func (c *client) listen() {
	for {
		c.wait()
		_, b, err := c.ws.Read(context.Background())
		if err != nil {
			if code := websocket.CloseStatus(err); code >= 0 {
				c.hears(fmt.Sprint("closed with ", int(code)))
			}
			return
		}
		c.hears(string(b))
	}
}

// tell runs a command of a client.
func (s *scene) tell(c *client, w []string, text string) string {
	switch w[1] {
	case ">": // sends a message
		typ, b := websocket.MessageText, unhex(s.t, text)
		if binary, ok := strings.CutPrefix(text, "binary:"); ok {
			typ, b = websocket.MessageBinary, binary
		}
		if err := c.ws.Write(s.t.Context(), typ, []byte(b)); err != nil {
			c.hears("not sent")
		}
	case "close":
		code, err := strconv.Atoi(w[2])
		fatalIf(s.t, err != nil, "%v %v", s.at, err)
		c.ws.Close(websocket.StatusCode(code), "")
	case "cut":
		c.conn.Close()
	case "raw": // bytes in hexadecimal
		b := unhex(s.t, "hex:"+w[2])
		go io.WriteString(c.conn, b)
	case "stops": // reading
		c.mu.Lock()
		c.stall = make(chan struct{})
		c.mu.Unlock()
	case "takes": // reads without an answer, like the network in between
		go io.Copy(io.Discard, c.conn)
	case "reads":
		c.read()
	default:
		s.t.Fatalf("%s: a client cannot %q", s.at, w[1])
	}
	return ""
}
