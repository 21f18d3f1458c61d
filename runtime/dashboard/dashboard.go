// Package dashboard has the pages for operators that a node serves at /dashboard/: HTML, scripts
// and styles, embedded in the program. Like the command cairn, they are a client of the node's HTTP
// API, and hold no data. They load nothing from elsewhere.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// Path is the path of the pages on a node.
const Path = "/dashboard/"

//go:embed static
var static embed.FS

// types are the media types of the files, by extension. The machine's own table is not used.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy allows the pages only to load scripts and styles of the node, and to connect to the node.
// There is no inline code, and no script turns text into code or markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// A file is one of the pages' files.
type file struct {
	content     []byte
	contentType string
	tag         string // hash of the content, in the form of the header ETag
}

// Handler serves the pages. It answers GET and HEAD of paths that begin with [Path], and of [Path]
// without the slash at the end. It checks neither the token nor the Host header: the gateway has
// checked the host, and the pages send the token to the API.
func Handler() http.Handler {
	files := make(map[string]file)
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		sum := sha256.Sum256(content)
		files[strings.TrimPrefix(name, "static/")] = file{content, types[path.Ext(name)],
			`"` + hex.EncodeToString(sum[:12]) + `"`}
		return err
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		name, below := strings.CutPrefix(r.URL.Path, Path)
		if !below {
			h.Set("Location", path.Base(Path)+"/") // relative, so that a proxy may add a path before it
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		if name == "" {
			name = "index.html"
		}
		f, ok := files[name]
		if !ok || err != nil {
			h.Set("Cache-Control", "no-store")
			http.Error(w, "the dashboard has no such file", http.StatusNotFound)
			return
		}
		h.Set("Content-Type", f.contentType)
		h.Set("Cache-Control", "no-cache") // asks each time, and gets 304 while the node is the same
		h.Set("ETag", f.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	})
}
