package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/docs/examples/flights/data"
	"github.com/cairn-run/cairn/docs/examples/flights/traffic"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
)

// patience is how long a test waits for a page. Only a failure takes that long.
const patience = 2 * time.Minute

// hostile is a value that a tenant may store to attack an operator.
const hostile = `<img src=x onerror="window.owned=1"><script>window.owned=1</script>'"&amp;`

// A tenant is found by its plan.
type tenant struct{}

var (
	tenants          = actor.NewType[tenant]("tenant")
	plan             = actor.NewAttribute[string](tenants, "plan")
	choose           = actor.NewAction[string, actor.None](tenants, "choose")
	tenantDefinition = actor.Define(tenants, actor.Spec[tenant]{},
		actor.On(choose, func(_ *tenant, ctx *actor.Context, name string) (actor.None, error) {
			return actor.None{}, plan.Set(ctx, name)
		}))
)

// browser starts one Chromium for all tests.
var browser = sync.OnceValues(func() (context.Context, error) {
	if _, err := exec.LookPath("chromium"); err != nil {
		return nil, fmt.Errorf("%w: make test installs it", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("disable-gpu", true),
		chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1")) // like a site that points its own name at this machine
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses root
	}
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	stopBrowser = stop
	return ctx, chromedp.Do(ctx)
})

var stopBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

// A site is a node with the flights example and cells, and the requests of its dashboard.
type site struct {
	t    *testing.T
	dir  string
	rt   *runtime.Runtime
	base string

	mu      sync.Mutex
	reasons map[string]string // the last header Cairn-Reason, by operation and method
}

func newSite(t *testing.T, token string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), reasons: make(map[string]string)}
	s.start("127.0.0.1:0", token)
	t.Cleanup(s.stop)
	return s
}

func (s *site) start(listen, token string) {
	s.t.Helper()
	rt, err := runtime.Open(s.t.Context(), runtime.Options{
		Dir: s.dir, Listen: listen, Token: token, NoSync: true, IdleTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Traces: runtime.TraceOptions{PerSecond: 1_000_000}, // every trace is kept
		Actors: append(traffic.Definitions(), cell.Definition(), tenantDefinition),
		Authorize: func(_ context.Context, r runtime.AuthRequest) error {
			if reason := r.Header.Get("Cairn-Reason"); reason != "" {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.reasons[strings.TrimSpace(string(r.Operation)+" "+r.Method)], _ = url.PathUnescape(reason)
			}
			return nil
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.rt, s.base = rt, "http://"+rt.Addr()+"/"
}

func (s *site) stop() {
	s.t.Helper()
	if err := s.rt.Close(); err != nil {
		s.t.Error(err)
	}
}

// reason returns the reason that the dashboard gave for a request.
func (s *site) reason(operation string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reasons[operation]
}

// do makes a request as a program does, and returns the answer.
func (s *site) do(method, path string, body any) map[string]any {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	if body == nil {
		text = nil
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(string(text)))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Body.Close()
	answer, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %d %s %v", method, path, w.StatusCode, answer, err)
	}
	out := make(map[string]any)
	if len(answer) > 0 {
		if err := json.Unmarshal(answer, &out); err != nil {
			s.t.Fatal(err)
		}
	}
	return out
}

func (s *site) call(actor, name string, input any) map[string]any {
	s.t.Helper()
	return s.do("POST", "actors/"+actor+"/-/call/"+name, input)
}

type object = map[string]any

// fly replays some flights, so that there are airports, routes and claims with workflow runs.
func (s *site) fly(n int) {
	s.t.Helper()
	flights, err := data.Flights()
	if err != nil {
		s.t.Fatal(err)
	}
	for i, f := range flights[:n] {
		_, err := traffic.Depart.Call(s.t.Context(), traffic.Airports.Ref(s.rt, f.Origin), traffic.Flight{
			Number: int64(i + 1), Date: f.Date, Destination: f.Destination, Distance: f.Distance, Delay: f.Delay,
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	// A very late flight has a claim, whose run waits for documents.
	if _, err := traffic.Depart.Call(s.t.Context(), traffic.Airports.Ref(s.rt, "ORD"),
		traffic.Flight{Number: 100_000, Destination: "LAX", Delay: 500}); err != nil {
		s.t.Fatal(err)
	}
}

// store fills a cell with hostile values.
func (s *site) store(actor string) {
	s.t.Helper()
	s.call(actor, "kv.set_index", object{"prefix": []any{"note"}, "fields": []any{object{"path": "title"}}})
	var mutations []any
	for i := range 12 {
		mutations = append(mutations, object{"op": "put", "key": []any{"user", i}, "value": object{"name": "Ada", "age": 20 + i}})
	}
	mutations = append(mutations,
		object{"op": "put", "key": []any{"note", 1}, "value": object{"title": "apple " + hostile}},
		object{"op": "put", "key": []any{hostile}, "value": hostile},
		object{"op": "put", "key": []any{"exact"}, "value": json.RawMessage("9007199254740993")})
	s.call(actor, "kv.commit", object{"mutations": mutations})
	s.call(actor, "kv.set_scope", object{"prefix": []any{"user"}, "log": true, "keep_versions": 5, "max_keys": 100})
	s.call(actor, "queue.send",
		object{"queue": "jobs", "messages": []any{object{"body": hostile}, object{"body": object{"to": "ann"}, "delay_ms": 3_600_000}}})
	s.call(actor, "queue.skip", object{"queue": "jobs"})
	s.call(actor, "queue.send", object{"queue": "jobs", "messages": []any{object{"body": object{"n": 1, "html": hostile}}}})
	s.call(actor, "stream.append", object{"stream": "tokens", "items": []any{"one", hostile}})
	s.call(actor, "schedule.set", object{"name": "nightly", "cron": "0 3 * * *", "payload": object{"queue": "jobs", "body": hostile}})
	s.call(actor, "sql.exec",
		object{"reason": "a test",
			"sql": `CREATE TABLE "` + strings.ReplaceAll(hostile, `"`, `""`) +
				`" (html TEXT, n INTEGER); CREATE TABLE customer (name TEXT, n INTEGER)`})
	s.call(actor, "sql.exec",
		object{"reason": "a test", "sql": "INSERT INTO customer VALUES (?1, 9007199254740993)", "args": []any{hostile}})
	s.call(actor, "token.create", object{"rights": []any{"read"}, "label": hostile})
}

// sleep puts an actor to sleep.
func (s *site) sleep(actor string) {
	s.t.Helper()
	s.call(actor, "actor.sleep", nil)
	if state := s.state(actor); state != "asleep" {
		s.t.Fatalf("%s is %s", actor, state)
	}
}

func (s *site) state(actor string) any {
	s.t.Helper()
	return s.do("GET", "actors/"+actor+"/-/", nil)["state"]
}

// A tab is a page of the browser. It collects the output of its console.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	troubles []string
	refused  string // a text that the console may contain
}

// open opens the dashboard of a site in a tab of its own, with a fragment.
func (s *site) open(fragment string) *tab {
	s.t.Helper()
	root, err := browser()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(root)
	s.t.Cleanup(cancel)
	b := &tab{t: s.t, ctx: ctx, base: s.base + "dashboard/"}
	err = chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *cdpruntime.EventExceptionThrown:
			b.troubles = append(b.troubles, fmt.Sprintf("exception: %v", ev.ExceptionDetails))
		case *cdpruntime.EventConsoleAPICalled:
			said := fmt.Sprintf("console.%s:", ev.Type)
			for _, arg := range ev.Args {
				said += " " + string(arg.Value) + arg.Description
			}
			b.troubles = append(b.troubles, said)
		case *log.EventEntryAdded:
			b.troubles = append(b.troubles, fmt.Sprintf("%s: %s %v", ev.Entry.Level, ev.Entry.Text, ev.Entry.URL))
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	b.size(1360, 900)
	// A tab behind another one, which an earlier test is still closing, would get no keys.
	focus := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	})
	if err := chromedp.Do(ctx, focus, chromedp.Navigate(b.base+fragment)); err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (b *tab) size(width, height int64) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, height)); err != nil {
		b.t.Fatal(err)
	}
}

// hide makes the page count as hidden, so that it reads nothing again. There is no event, so its
// streams continue.
func (b *tab) hide() {
	b.t.Helper()
	js[bool](b, "(Object.defineProperty(document, 'hidden', { value: true }), true)")
}

// told hides the page, or shows it, with an event as in a browser.
func (b *tab) told(hidden bool) {
	b.t.Helper()
	js[bool](b, fmt.Sprintf("(Object.defineProperty(document, 'hidden', { value: %t, configurable: true }), document.dispatchEvent(new Event('visibilitychange')))", hidden))
}

// calm fails the test if the console has any output, except that the node refused a request without
// a valid token.
func (b *tab) calm() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.troubles {
		if !strings.Contains(trouble, "status of 401") && (b.refused == "" || !strings.Contains(trouble, b.refused)) {
			b.t.Error(trouble)
		}
	}
}

// js runs an expression in the page.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression of the page is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx,
		chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingTimeout(patience),
			chromedp.WithPollingInterval(25*time.Millisecond)))
	if err != nil {
		b.t.Fatalf("%s: %v; the page says:\n%s", expression, err, js[string](b, "document.body.innerText.slice(0, 3000)"))
	}
}

// shows waits until the page shows a text.
func (b *tab) shows(text string) {
	b.t.Helper()
	b.until("document.body.innerText.includes(" + quote(text) + ")")
}

// visit shows a page of the dashboard and waits until it is complete.
func (b *tab) visit(fragment string) {
	b.t.Helper()
	js[bool](b, "(document.getElementById('content').replaceChildren(), location.hash = "+quote("#"+fragment)+
		", dispatchEvent(new HashChangeEvent('hashchange')))")
	b.until("document.querySelector('.page[data-ready]') && !document.querySelector('.loading')")
}

// press presses keys, one after the other.
func (b *tab) press(keys string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.KeyEvent(keys)); err != nil {
		b.t.Fatal(err)
	}
}

// click presses the button or link with a text, within the open dialog if there is one.
func (b *tab) click(text string) {
	b.t.Helper()
	find := "[...(document.querySelector('dialog[open]') ?? document.getElementById('frame')).querySelectorAll('button, a, summary')].find((e) => e.innerText.trim() === " + quote(text) + " && !e.disabled)"
	b.until(find)
	js[bool](b, "("+find+".click(), true)")
}

// fill types into fields of the open dialog or of the page, by their names or labels.
func (b *tab) fill(pairs ...string) {
	b.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		find := "(document.querySelector('dialog[open]') ?? document).querySelector(`[name=\"" + pairs[i] +
			"\"], [aria-label=\"" + pairs[i] + "\"]`)"
		b.until(find)
		js[bool](b, "((e) => { e.focus(); e.value = "+quote(pairs[i+1])+
			"; e.dispatchEvent(new Event('input', {bubbles: true})); e.dispatchEvent(new Event('change', {bubbles: true})); return true; })("+find+")")
	}
}

// pictures reports whether pictures of pages are kept. Nothing compares them.
func pictures() bool { return os.Getenv("CAIRN_LONG") != "" }

// screenshot keeps a picture of the page in a folder that is not part of the repository, if
// CAIRN_LONG is set.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	if !pictures() {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll("screenshots", 0o777); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("screenshots", name+".png"), picture, 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// harmless checks that no stored value has become markup or code.
func (b *tab) harmless() {
	b.t.Helper()
	if js[bool](b, "Boolean(window.owned) || document.querySelector('#content img, #content script, #content iframe, dialog img') !== null") {
		b.t.Error("a stored value became markup: ", js[string](b, "location.hash"))
	}
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(text)
}
