package dashboard

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func answer(t *testing.T, method, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func names(t *testing.T) (names []string) {
	t.Helper()
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := static.ReadFile("static/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEachFileIsServedWithItsTypeAndSafeHeaders(t *testing.T) {
	for _, name := range append(names(t), "") {
		r := answer(t, "GET", Path+name)
		if want := types[path.Ext(name)]; name != "" && (want == "" || r.Header.Get("Content-Type") != want) {
			t.Errorf("%s has the type %q", name, r.Header.Get("Content-Type"))
		}
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, r.StatusCode)
		}
		for header, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-cache",
		} {
			if got := r.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q; want %q", name, header, got, want)
			}
		}
		csp := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'",
			"base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy lacks %s", name, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "http") {
			t.Errorf("%s: the policy is too wide: %s", name, csp)
		}
	}
}

func TestAFileIsSentOnceUntilItChanges(t *testing.T) {
	tag := answer(t, "GET", Path).Header.Get("ETag")
	if r := answer(t, "GET", Path, "If-None-Match", tag); tag == "" || r.StatusCode != http.StatusNotModified {
		t.Errorf("with the tag %q the status is %d", tag, r.StatusCode)
	}
	if other := answer(t, "GET", Path+"style.css").Header.Get("ETag"); other == tag {
		t.Error("two files have one tag")
	}
}

func TestOtherPaths(t *testing.T) {
	for target, want := range map[string]int{Path + "no.js": 404, Path + "../dashboard.go": 404,
		Path + "static/main.js": 404, Path + "%2e%2e/x": 404} {
		if r := answer(t, "GET", target); r.StatusCode != want {
			t.Errorf("%s: status %d; want %d", target, r.StatusCode, want)
		}
	}
	if r := answer(t, "GET", "/dashboard"); r.StatusCode != http.StatusPermanentRedirect || r.Header.Get("Location") != "dashboard/" {
		t.Errorf("without the slash: %d to %q", r.StatusCode, r.Header.Get("Location"))
	}
}

// TestTheFirstLoadIsSmall bounds all files together; the first load is a part of them.
func TestTheFirstLoadIsSmall(t *testing.T) {
	const most = 300 << 10
	sum := 0
	for _, name := range names(t) {
		sum += len(read(t, name))
	}
	if sum > most {
		t.Errorf("the files have %d bytes; at most %d", sum, most)
	}
}

// TestTheFilesStandAlone checks that nothing is loaded from elsewhere, that no code is inline, and
// that no text becomes markup or code.
func TestTheFilesStandAlone(t *testing.T) {
	known := make(map[string]bool)
	for _, name := range names(t) {
		known[name] = true
	}
	elsewhere := regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	markup := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function|localStorage|sessionStorage|document\.cookie|srcdoc`)
	imports := regexp.MustCompile(`(?:from |import\()'\./([^']+)'`)
	links := regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	for _, name := range names(t) {
		text := strings.ReplaceAll(read(t, name), "http://www.w3.org/2000/svg", "")
		if found := elsewhere.FindString(text); found != "" {
			t.Errorf("%s names another site: %s", name, found)
		}
		if found := markup.FindString(text); found != "" {
			t.Errorf("%s uses %s", name, found)
		}
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
		}
	}
	index := read(t, "index.html")
	for _, m := range links.FindAllStringSubmatch(index, -1) {
		if !known[m[1]] {
			t.Errorf("the page loads %s, which is not there", m[1])
		}
	}
	if regexp.MustCompile(`<script[^>]*>[^<]|<style|style=| on[a-z]+=`).MatchString(index) {
		t.Error("the page has inline code")
	}
}
