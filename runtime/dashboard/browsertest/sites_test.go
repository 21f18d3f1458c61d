package browsertest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestOtherSites opens a page of another site that frames the dashboard and calls the API, and a
// name of another site that points at the node.
func TestOtherSites(t *testing.T) {
	s := newSite(t, "")
	b := s.open("")
	b.until("document.querySelector('.tiles')")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<!doctype html><title>evil</title><iframe src="%[1]sdashboard/"></iframe><script>
			window.results = [];
			const note = (what) => (r) => results.push(what + ' ' + (r.type ?? r.name));
			for (const [what, path, options] of [
				['read', 'actors', {}],
				['write', 'actors/cell/owned/-/call/put', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"key":[1],"value":1}'}],
				['blind', 'actors/cell/owned/-/call/put', {method: 'POST', mode: 'no-cors', body: '{"key":[1],"value":1}'}],
			]) fetch('%[1]s' + path, options).then(note(what), note(what));
		</script>`, s.base)
	}))
	defer site.Close()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(site.URL)); err != nil {
		t.Fatal(err)
	}
	b.until("window.results?.length === 3")
	if got := js[string](b, "results.sort().join()"); got != "blind opaque,read TypeError,write TypeError" {
		t.Errorf("the page of another site got %s", got)
	}
	if list := s.do("GET", "actors", nil)["actors"].([]any); len(list) != 0 {
		t.Errorf("the page of another site has made %v", list)
	}
	b.until("document.querySelector('iframe').contentDocument === null")
	said := ""
	for begun := time.Now(); !strings.Contains(said, "frame-ancestors 'none'"); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("nothing has kept the dashboard out of a frame: %s", said)
		}
		b.mu.Lock()
		said = strings.Join(b.troubles, "\n")
		b.mu.Unlock()
	}

	_, port, err := net.SplitHostPort(s.rt.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(b.ctx, chromedp.Navigate("http://rebound.example:"+port+"/dashboard/")); err != nil {
		t.Fatal(err)
	}
	b.shows("serves only the hosts localhost")
}
