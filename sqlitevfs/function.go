package sqlitevfs

import (
	"bytes"

	"github.com/ncruces/go-sqlite3"
)

// functions replaces functions of SQLite whose time grows with the product of the lengths of their
// arguments. Within the limit of a length that can be minutes without an interrupt. These take time
// in proportion to the sum, and return the same.
func (in *instance) functions() error {
	const flags = sqlite3.DETERMINISTIC | sqlite3.INNOCUOUS
	for _, f := range []struct {
		name string
		n    int
		f    sqlite3.ScalarFunction
	}{
		{"instr", 2, instr},
		{"replace", 3, in.replace},
		{"trim", 2, func(ctx sqlite3.Context, arg ...sqlite3.Value) { trim(ctx, arg, true, true) }},
		{"ltrim", 2, func(ctx sqlite3.Context, arg ...sqlite3.Value) { trim(ctx, arg, true, false) }},
		{"rtrim", 2, func(ctx sqlite3.Context, arg ...sqlite3.Value) { trim(ctx, arg, false, true) }},
	} {
		if err := in.db.CreateFunction(f.name, f.n, flags, f.f); err != nil {
			return err
		}
	}
	return nil
}

// continues reports whether a byte of UTF-8 is not the first of its character.
func continues(b byte) bool { return b&0xc0 == 0x80 }

// instr is SQL's instr(X, Y): the position of the first Y in X, in characters, or in bytes if both
// are blobs.
func instr(ctx sqlite3.Context, arg ...sqlite3.Value) {
	a, b := arg[0].Type(), arg[1].Type()
	if a == sqlite3.NULL || b == sqlite3.NULL {
		return
	}
	if a == sqlite3.BLOB && b == sqlite3.BLOB {
		ctx.ResultInt(bytes.Index(arg[0].RawBlob(), arg[1].RawBlob()) + 1)
		return
	}
	in, what := arg[0].RawText(), arg[1].RawText()
	if len(what) > 0 && continues(what[0]) { // found only at the beginning: the search steps by characters
		if bytes.HasPrefix(in, what) {
			ctx.ResultInt(1)
		} else {
			ctx.ResultInt(0)
		}
		return
	}
	at := bytes.Index(in, what)
	n := min(at+1, 1)
	for i := 1; i <= at; i++ {
		if i == len(in) || !continues(in[i]) {
			n++
		}
	}
	ctx.ResultInt(n)
}

// replace is SQL's replace(X, Y, Z): X with Z for each Y.
func (in *instance) replace(ctx sqlite3.Context, arg ...sqlite3.Value) {
	kind := arg[0].Type()
	if kind == sqlite3.NULL || arg[1].Type() == sqlite3.NULL {
		return
	}
	text, what := arg[0].RawText(), arg[1].RawText()
	if len(what) == 0 || what[0] == 0 {
		if kind == sqlite3.BLOB {
			ctx.ResultValue(arg[0])
		} else {
			ctx.ResultRawText(text)
		}
		return
	}
	if arg[2].Type() == sqlite3.NULL {
		return
	}
	with := arg[2].RawText()
	n := bytes.Count(text, what)
	if n == 0 {
		ctx.ResultRawText(text)
		return
	}
	if int64(len(text))+int64(n)*int64(len(with)-len(what)) > int64(in.maxLength) {
		ctx.ResultError(sqlite3.TOOBIG)
		return
	}
	ctx.ResultRawText(bytes.Replace(text, what, with, n))
}

// A charSet is the characters to trim: single bytes, and longer ones by their length. Characters of
// more than 4 bytes are ignored.
type charSet struct {
	single [256]bool
	longer [5]map[string]bool
}

// add adds the characters of a text, up to its first zero byte.
func (s *charSet) add(text []byte) {
	for len(text) > 0 && text[0] != 0 {
		n := 1
		if text[0] >= 0xc0 {
			for n < len(text) && continues(text[n]) {
				n++
			}
		}
		if n == 1 {
			s.single[text[0]] = true
		} else if n < len(s.longer) {
			if s.longer[n] == nil {
				s.longer[n] = make(map[string]bool)
			}
			s.longer[n][string(text[:n])] = true
		}
		text = text[n:]
	}
}

// trim is SQL's trim(X, Y): X without the characters of Y at its ends.
func trim(ctx sqlite3.Context, arg []sqlite3.Value, left, right bool) {
	if arg[0].Type() == sqlite3.NULL || arg[1].Type() == sqlite3.NULL {
		return
	}
	in := arg[0].RawText()
	var set charSet
	set.add(arg[1].RawText())
	for n := 1; left && n > 0; in = in[n:] {
		n = set.match(in, func(n int) []byte { return in[:n] })
	}
	for n := 1; right && n > 0; in = in[:len(in)-n] {
		n = set.match(in, func(n int) []byte { return in[len(in)-n:] })
	}
	ctx.ResultRawText(in)
}

// match returns the length of the character at an end of a text, or 0 if it is not in the set.
func (s *charSet) match(in []byte, end func(n int) []byte) int {
	if len(in) > 0 && s.single[end(1)[0]] {
		return 1
	}
	for n, chars := range s.longer {
		if len(chars) > 0 && n <= len(in) && chars[string(end(n))] {
			return n
		}
	}
	return 0
}
