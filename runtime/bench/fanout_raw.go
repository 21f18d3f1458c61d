package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// A hall is a bare server whose one loop writes each message to every client in turn.
type hall struct {
	mu      sync.Mutex
	clients []func(message []byte) error
	end     chan struct{}
}

// rawFanOut is fanOut of a bare loop over the same kind of sockets.
func (b *bench) rawFanOut(n int, sockets bool) fanFigures {
	return once(b, fmt.Sprint("raw fan out, WebSockets ", sockets), func() (v fanFigures) {
		h, au := &hall{end: make(chan struct{})}, newAudience()
		handler, message := h.events, eventMessage
		if sockets {
			handler, message = h.socket, socketMessage
		}
		serve(handler, func(addr string) {
			au.enter(n, func() *listener { return listen(addr, "/", stageHello, sockets) })
			v = au.measure(b, func(i int) {
				au.emits(i)
				h.write(message(i, n))
			})
			au.leave()
			close(h.end)
		})
		return v
	})
}

// write writes a message to every client.
func (h *hall) write(message []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.clients {
		check(c(message))
	}
}

// admit greets a client, who hears every message after that.
func (h *hall) admit(c func([]byte) error, welcome string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	check(c([]byte(welcome)))
	h.clients = append(h.clients, c)
}

func (h *hall) socket(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	check(err)
	defer ws.CloseNow()
	ctx := context.Background()
	_, _, err = ws.Read(ctx) // the hello
	check(err)
	h.admit(func(message []byte) error { return ws.Write(ctx, websocket.MessageText, message) }, `{"welcome":{}}`)
	<-h.end
}

func (h *hall) events(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	h.admit(func(message []byte) error {
		if _, err := w.Write(message); err != nil {
			return err
		}
		return rc.Flush()
	}, "event: welcome\ndata: {}\n\n")
	<-h.end
}

// lineData is the value of the event of line n.
func lineData(n int) []byte {
	data, err := json.Marshal(line{n, lineText})
	check(err)
	return data
}

// socketMessage and eventMessage are what a node sends of the event of line n: over a WebSocket,
// and as an event. The lines come after the commits that created the actor and let its audience in.
func socketMessage(n, audience int) []byte {
	return fmt.Appendf(nil, `{"event":"said","sequence":%d,"version":%d,"time":"%s","data":%s}`,
		n+1, n+audience+2, lineTime(), lineData(n))
}

// stageLife stands for the id of the actor, which is a part of each event's position.
const stageLife = "03346b03-3d69-81d7-aebc-b53d87c983fb"

func eventMessage(n, audience int) []byte {
	return fmt.Appendf(nil, "id: %d@%s\nversion: %d\ntime: %s\nevent: said\ndata: %s\n\n",
		n+1, stageLife, n+audience+2, lineTime(), lineData(n))
}

func lineTime() string { return time.Now().UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) }
