//go:build browser

package guides_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// A board is what the page in the browser looks at.
type board struct{ Posts int }

var (
	boards = actor.NewType[board]("board")
	post   = actor.NewAction[string, int](boards, "post")
	posted = actor.NewEvent[string](boards, "posted", actor.EventConfig{})
)

func (b *board) post(ctx *actor.Context, text string) (int, error) {
	b.Posts++
	return b.Posts, posted.Emit(ctx, text)
}

// page is a client of connections in a browser: it connects, calls, gets the event, loses its
// socket, misses an event meanwhile and comes back for it. It reports what it saw, one line each.
const page = `<!doctype html><title>board</title><script>
const url = 'ws://%s/actors/board/lobby/-/connect';
const lines = [];
const report = () => fetch('/result', {method: 'POST', body: lines.join('\n')});
function open(first, heard) {
	const ws = new WebSocket(url, ['cairn.v1', 'cairn.token.' + btoa('secret').replace(/=+$/, '')]);
	ws.onopen = () => ws.send(JSON.stringify({connect: first}));
	ws.onmessage = (m) => heard(JSON.parse(m.data), ws);
	ws.onerror = () => { lines.push('error'); report(); };
	return ws;
}
let token, last;
open({events: ['posted']}, (m, ws) => {
	if (m.welcome) {
		token = m.welcome.token;
		lines.push('resumed ' + m.welcome.resumed + ' over ' + ws.protocol);
		ws.send(JSON.stringify({id: 1, call: 'post', input: 'from the page'}));
	}
	if (m.event) { last = m.sequence; lines.push(m.event + ' ' + m.data); }
	if (m.id === 1) lines.push('reply ' + m.output);
	if (lines.length === 3) again(ws);
});
async function again(ws) {
	ws.onmessage = null; // what comes from here on, this page does not hear
	await fetch('/lose', {method: 'POST'}); // the network is lost, and somebody posts
	open({token, after: last}, (m) => {
		if (m.welcome) lines.push('resumed ' + m.welcome.resumed);
		if (m.event) { lines.push(m.event + ' ' + m.data); report(); }
	});
}
</script>`

// TestConnectionsFromAPageInABrowser runs the page in Chromium, from an origin that the node
// allows.
func TestConnectionsFromAPageInABrowser(t *testing.T) {
	result := make(chan string, 1)
	var rt *runtime.Runtime
	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	defer site.Close()
	rt, err := runtime.Open(context.Background(), runtime.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Token: "secret", AllowedOrigins: []string{site.URL},
		Actors: []actor.Definition{actor.Define(boards, actor.Spec[board]{}, actor.On(post, (*board).post))},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, page, rt.Addr()) })
	mux.HandleFunc("POST /lose", func(w http.ResponseWriter, r *http.Request) {
		if _, err := post.Call(r.Context(), boards.Ref(rt, "lobby"), "while it was away"); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc("POST /result", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		result <- string(text)
	})
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		chromium = "chromium"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--remote-debugging-port=0", site.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	select {
	case got := <-result:
		lines := strings.Split(got, "\n")
		if len(lines) != 5 || lines[0] != "resumed false over cairn.v1" || lines[3] != "resumed true" || lines[4] != "posted while it was away" {
			t.Fatalf("the page saw\n%s", got)
		}
		seen := lines[1] + ", " + lines[2] // the reply and the event come in either order
		if !strings.Contains(seen, "reply 1") || !strings.Contains(seen, "posted from the page") {
			t.Fatalf("the page saw\n%s", got)
		}
	case <-ctx.Done():
		t.Fatal("the page reported nothing")
	}
}
