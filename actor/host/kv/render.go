package kv

import "time"

// The bounds of kv.render.
const (
	MaxTemplate      = 64 << 10 // bytes
	MaxRendered      = 1 << 20  // bytes of the text
	MaxRenderTime    = 100 * time.Millisecond
	MaxRenderSteps   = 1_000_000 // nodes of the template that are executed
	MaxTemplates     = 16        // that call each other, one inside of another
	MaxRenderEntries = 10_000    // under the prefix
	MaxRenderBytes   = 4 << 20
)

// RenderInput is a template of Go's text/template, and the entries to fill it with.
type RenderInput struct {
	Moment
	// Template has up to MaxTemplate bytes. Its functions are get, index, json, default, len, and,
	// or, not, eq, ne, lt, le, gt and ge.
	Template string `json:"template"`
	// Prefix selects the entries, up to MaxRenderEntries with MaxRenderBytes; absent means all. The
	// value of the key PREFIX, "a" is .a in the template, and that of PREFIX, "a", "b" is .a.b.
	Prefix Key `json:"prefix,omitempty"`
	// Strict refuses an absent key. Otherwise it is written as <no value>.
	Strict bool `json:"strict,omitempty"`
}

// RenderOutput has the text, of up to MaxRendered bytes.
type RenderOutput struct {
	Text string `json:"text"`
}
