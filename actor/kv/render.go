package kv

import (
	"context"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A RenderConfig has the template and selects the entries of [Store.Render].
type RenderConfig struct {
	// Template is a template of Go's text/template, of up to 64 KiB. In it .a is the value of the
	// entry with the key Prefix, "a", and .a.b that of Prefix, "a", "b". Values are strings,
	// numbers, booleans, and arrays and objects of them; bytes are their base64.
	//
	// Its functions are get, with the parts of a key behind the prefix; index; json; default, which
	// replaces an absent or empty value; len, and, or, not, eq, ne, lt, le, gt and ge.
	Template string
	// Prefix selects the entries, up to 10,000 with values of up to 4 MiB; nil is all.
	Prefix Key
	// Strict refuses an absent key, which is <no value> otherwise.
	Strict bool
}

// Render fills a template with entries of one commit. The text has up to 1 MiB. The error code is
// InvalidArgument for a malformed template; FailedPrecondition for a template that does not fit the
// values, and for an absent key, which the error names; and TooLarge beyond 100 ms, 1,000,000 steps
// or calls of templates 16 deep.
func (r Reader) Render(ctx context.Context, c RenderConfig) (string, error) {
	out, err := site.Ask(ctx, &r.site, method.KVRender,
		&hostkv.RenderInput{Moment: r.moment, Template: c.Template, Prefix: c.Prefix, Strict: c.Strict})
	return out.Text, err
}
