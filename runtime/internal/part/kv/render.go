package kv

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	tree "text/template/parse"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/tuple"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/where"
)

// A renderer executes one template of a caller, which may be hostile.
//
//  1. A template runs for up to kv.MaxRenderTime and kv.MaxRenderSteps: the time does not pass in
//     tests in virtual time. It begins before the template is compiled and the values are decoded.
//     An empty text is inserted before each node of its tree, so a loop that writes nothing calls
//     Write too. Write and functions fail when the bounds are used up.
//  2. A template can call the functions of this file, and and, or, not and len of text/template,
//     which allocate nothing. It cannot call methods: its values have none except those of
//     json.Number.
//  3. Its output is bounded, and so is the output of json, which variables may keep.
type renderer struct {
	*reader
	prefix   kv.Key
	strict   bool
	deadline time.Time
	steps    int
	out      strings.Builder
	depth    int   // templates that are being executed
	made     int   // bytes by json
	fault    error // of the store
}

// maxMade bounds the output of json in one template.
const maxMade = 4 * kv.MaxRendered

// render implements kv.render.
func render(r *reader, in *kv.RenderInput) (out kv.RenderOutput, err error) {
	if n := len(in.Template); n > kv.MaxTemplate {
		return out, host.OverLimit("template", kv.MaxTemplate, int64(n)).With("field", "template")
	}
	if r, err = r.moment(&in.Moment); err != nil {
		return out, err
	}
	t := renderer{reader: r, prefix: in.Prefix, strict: in.Strict, deadline: time.Now().Add(kv.MaxRenderTime)}
	main, err := t.parse(in.Template)
	if err != nil {
		return out, faulty(host.InvalidArgument, err)
	}
	data, err := t.data()
	if err != nil {
		return out, err
	}
	if err := main.Execute(&t, data); err != nil {
		if t.fault != nil {
			return out, t.fault
		}
		if public, ok := errors.AsType[*host.Error](err); ok {
			return out, public.With("field", "template")
		}
		return out, faulty(host.FailedPrecondition, err)
	}
	return kv.RenderOutput{Text: strings.ToValidUTF8(t.out.String(), "\uFFFD")}, nil
}

// faulty turns an error of package template into one for callers. It has the name of the template
// once.
func faulty(code host.Code, err error) error {
	const most = 500
	text := strings.TrimPrefix(err.Error(), "template: ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return host.Errorf(code, "%s", text).With("field", "template")
}

// Functions that mark where a template begins and ends. A caller cannot name them.
const (
	enterName = "enter"
	leaveName = "leave"
)

// parse compiles a template, and inserts the checks that bound it.
func (t *renderer) parse(text string) (*template.Template, error) {
	missing := "missingkey=default"
	if t.strict {
		missing = "missingkey=error"
	}
	own := template.FuncMap{
		"get": t.get, "index": t.index, "json": t.json, "default": t.fallback, "eq": t.eq, "ne": t.ne, "lt": t.lt, "le": t.le, "gt": t.gt, "ge": t.ge,
	}
	offered := []string{"and", "or", "not", "len"}
	for name := range own {
		offered = append(offered, name)
	}
	main := template.New("template").Option(missing).Funcs(own)
	if _, err := main.Parse(text); err != nil {
		return nil, err
	}
	marks, err := template.New("marks").
		Funcs(template.FuncMap{enterName: t.enter, leaveName: t.leave}).
		Parse("{{" + enterName + "}}{{" + leaveName + "}}")
	if err != nil {
		return nil, err
	}
	main.Funcs(template.FuncMap{enterName: t.enter, leaveName: t.leave})
	enter, leave := marks.Root.Nodes[0], marks.Root.Nodes[1]
	for _, one := range main.Templates() {
		if one.Tree == nil {
			continue
		}
		if err := bound(one.Tree, one.Root, offered, 0); err != nil {
			return nil, err
		}
		one.Root.Nodes = append(append([]tree.Node{enter}, one.Root.Nodes...), leave)
	}
	return main, nil
}

// maxNested bounds how many if, with and range are nested. An error takes the square of that to
// return.
const maxNested = 32

// bound inserts an empty text before each node below a node, and refuses functions that are not
// offered. depth counts the if, with and range around the node.
func bound(in *tree.Tree, node tree.Node, offered []string, depth int) error {
	var below []tree.Node
	switch node.(type) {
	case *tree.IfNode, *tree.WithNode, *tree.RangeNode:
		if depth++; depth > maxNested {
			at, _ := in.ErrorContext(node)
			return fmt.Errorf("%s: more than %d if, with and range are in each other", at, maxNested)
		}
	}
	switch n := node.(type) {
	case *tree.ListNode:
		if n == nil {
			return nil
		}
		below = n.Nodes
		n.Nodes = make([]tree.Node, 0, 2*len(below)+1)
		for _, one := range below {
			n.Nodes = append(n.Nodes, &tree.TextNode{NodeType: tree.NodeText}, one)
		}
		n.Nodes = append(n.Nodes, &tree.TextNode{NodeType: tree.NodeText})
	case *tree.IfNode:
		below = []tree.Node{n.Pipe, n.List, n.ElseList}
	case *tree.WithNode:
		below = []tree.Node{n.Pipe, n.List, n.ElseList}
	case *tree.RangeNode:
		below = []tree.Node{n.Pipe, n.List, n.ElseList}
	case *tree.ActionNode:
		below = []tree.Node{n.Pipe}
	case *tree.TemplateNode:
		below = []tree.Node{n.Pipe}
	case *tree.PipeNode:
		if n == nil {
			return nil
		}
		for _, c := range n.Cmds {
			below = append(below, c)
		}
	case *tree.CommandNode:
		below = n.Args
	case *tree.ChainNode:
		below = []tree.Node{n.Node}
	case *tree.IdentifierNode:
		if !slices.Contains(offered, n.Ident) {
			at, _ := in.ErrorContext(n)
			return fmt.Errorf("%s: function %q is not offered", at, n.Ident)
		}
	}
	for _, n := range below {
		if err := bound(in, n, offered, depth); err != nil {
			return err
		}
	}
	return nil
}

// data reads the entries under the prefix, as maps of their keys' parts behind it. An entry whose
// key also begins other keys hides these. Of parts with the same name the first is seen.
func (t *renderer) data() (map[string]any, error) {
	start, end, err := bounds(&kv.Selection{Prefix: t.prefix})
	if err != nil {
		return nil, err
	}
	root := map[string]any{}
	q := engine.ListQuery{Limit: kv.MaxPage, MaxBytes: pageBytes}
	q.Start, q.End = kvrows.Bounds(start, end)
	entries, size := 0, 0
	for {
		page, err := t.rows.List(q)
		if err != nil {
			return nil, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			entries, size = entries+1, size+len(e.Value)
			switch {
			case entries > kv.MaxRenderEntries:
				return nil,
					host.OverLimit("entries for a template", kv.MaxRenderEntries, int64(entries)).
						With("field", "prefix")
			case size > kv.MaxRenderBytes:
				return nil,
					host.OverLimit("bytes of the values for a template", kv.MaxRenderBytes,
						int64(size)).With("field", "prefix")
			}
			parts, err := tuple.Unpack(e.Key[1:])
			if err != nil {
				return nil, err
			}
			v, err := decoded(e)
			if err != nil {
				return nil, err
			}
			if err := t.late(); err != nil {
				return nil, err.With("field", "prefix")
			}
			place(root, parts[len(t.prefix):], v)
		}
		if page.Next == nil {
			return root, nil
		}
		q.After = page.Next
	}
}

// place puts the value of an entry at the place of its key. The entry of the prefix itself has no
// name.
func place(m map[string]any, parts []any, v any) {
	for i, part := range parts {
		name := nameOf(part)
		next, there := m[name]
		if i == len(parts)-1 {
			if !there {
				m[name] = v
			}
			return
		}
		inner, isMap := next.(names)
		if there && !isMap {
			return
		}
		if !there {
			inner = names{}
			m[name] = inner
		}
		m = inner
	}
}

// names is a map of the parts of keys. The map of an object in a value has another type.
type names map[string]any

// nameOf returns the name of a part of a key in a template.
func nameOf(part any) string {
	switch part := part.(type) {
	case string:
		return part
	case []byte:
		return base64.StdEncoding.EncodeToString(part)
	}
	return fmt.Sprint(part)
}

// decoded decodes the value of an entry for a template. Bytes are their base64.
func decoded(e *engine.Entry) (any, error) {
	if host.Encoding(e.Encoding) == host.EncodedBytes {
		return base64.StdEncoding.EncodeToString(e.Value), nil
	}
	v, err := document(value.Value{Encoding: host.Encoding(e.Encoding), Data: e.Value})
	return plain(v), err
}

// plain makes numbers that are whole int64, and others that are 0 a float64, so that 0 is false.
// The others stay a json.Number, which is written as it is stored.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if where.Equal(v, json.Number("0")) {
			return 0.0
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	}
	return v
}

// Write implements io.Writer.
func (t *renderer) Write(b []byte) (int, error) {
	if err := t.tick(); err != nil {
		return 0, err
	}
	if n := t.out.Len() + len(b); n > kv.MaxRendered {
		return 0, host.OverLimit("bytes that the template writes", kv.MaxRendered, int64(n))
	}
	return t.out.Write(b)
}

// tick counts a step, and returns an error if it or the time is over the bound.
func (t *renderer) tick() error {
	if t.steps++; t.steps > kv.MaxRenderSteps {
		return host.OverLimit("steps of a template", kv.MaxRenderSteps, int64(t.steps))
	}
	if err := t.late(); err != nil {
		return err
	}
	return nil
}

// late returns an error if the time is over.
func (t *renderer) late() *host.Error {
	if late := time.Since(t.deadline); late > 0 {
		return host.OverLimit("milliseconds of a template", kv.MaxRenderTime.Milliseconds(),
			(kv.MaxRenderTime+late).Milliseconds()+1)
	}
	return nil
}

func (t *renderer) enter() (string, error) {
	if t.depth++; t.depth > 1+kv.MaxTemplates { // the first is the rendered one
		return "", host.OverLimit("templates inside of each other", kv.MaxTemplates, int64(t.depth-1))
	}
	return "", t.tick()
}

func (t *renderer) leave() string {
	t.depth--
	return ""
}

// absent returns the value of an absent key.
func (t *renderer) absent(key string) (any, error) {
	const most = 100
	if len(key) > most {
		key = strings.ToValidUTF8(key[:most], "") + "…"
	}
	if t.strict {
		return nil, fmt.Errorf("there is no key %s", key)
	}
	return nil, nil
}

// get returns the value of the key with some parts behind the prefix.
func (t *renderer) get(parts ...any) (any, error) {
	if err := t.tick(); err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, errors.New("the parts of the key are missing")
	}
	key := slices.Clone(t.prefix)
	for _, part := range parts {
		if number, is := part.(json.Number); is {
			if f, err := number.Float64(); err == nil {
				part = f
			}
		}
		key = append(key, part)
	}
	if _, err := key.Tuple(); err != nil {
		return nil, errors.New("a part of the key is no string, number or boolean")
	}
	row, err := rowOf(key)
	if err != nil {
		return nil, err
	}
	e, there, err := t.rows.Get(row)
	var v any
	if err == nil && there {
		v, err = decoded(&e)
	}
	if err != nil {
		t.fault = err
	}
	if there || err != nil {
		return v, err
	}
	text, err := json.Marshal(key[len(t.prefix):])
	if err != nil {
		return nil, err
	}
	return t.absent(string(text))
}

// index returns a member of an object or map, or an element of an array, by one name or place after
// another.
func (t *renderer) index(of any, places ...any) (any, error) {
	for _, place := range places {
		if err := t.tick(); err != nil {
			return nil, err
		}
		place = operand(place)
		name, text := place.(string)
		number, whole := place.(json.Number)
		if whole {
			name = string(number)
		}
		var next any
		there := false
		switch in := of.(type) {
		case map[string]any:
			next, there = in[name]
		case names:
			next, there = in[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(in) {
				next, there = in[i], true
			}
		case nil:
		default:
			return nil, errors.New("a value is neither an array nor has members")
		}
		switch {
		case !text && !whole:
			return nil, errors.New("a name is a string, and a place in an array a number")
		case !there:
			return t.absent(strconv.Quote(name))
		}
		of = next
	}
	return of, nil
}

// json returns a value as JSON.
func (t *renderer) json(v any) (string, error) {
	if err := t.tick(); err != nil {
		return "", err
	}
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", errors.New("the value cannot be written as JSON")
	}
	if t.made += text.Len(); t.made > maxMade {
		return "", host.OverLimit("bytes that json makes in a template", maxMade, int64(t.made))
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// fallback returns v, or another value if v is absent, null, false, 0 or empty.
func (t *renderer) fallback(other any, v ...any) (any, error) {
	if len(v) != 1 {
		return nil, errors.New("default takes two values")
	}
	if truth, ok := template.IsTrue(v[0]); !ok || !truth {
		return other, t.tick()
	}
	return v[0], t.tick()
}

func (t *renderer) eq(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, errors.New("there is nothing to compare with")
	}
	for _, b := range others {
		if err := t.tick(); err != nil {
			return false, err
		}
		for _, v := range []any{a, b} {
			if _, is := v.(names); is {
				return false, errors.New("a part of keys is no value to compare")
			}
		}
		if where.Equal(operand(a), operand(b)) {
			return true, nil
		}
	}
	return false, nil
}

func (t *renderer) ne(a, b any) (bool, error) {
	same, err := t.eq(a, b)
	return !same, err
}

// order compares two numbers, strings or booleans.
func (t *renderer) order(a, b any) (int, error) {
	if err := t.tick(); err != nil {
		return 0, err
	}
	c, ordered := where.Compare(operand(a), operand(b))
	if !ordered {
		return 0, errors.New("the values have no order: two numbers, strings or booleans are expected")
	}
	return c, nil
}

func (t *renderer) lt(a, b any) (bool, error) { c, err := t.order(a, b); return c < 0, err }
func (t *renderer) le(a, b any) (bool, error) { c, err := t.order(a, b); return c <= 0, err }
func (t *renderer) gt(a, b any) (bool, error) { c, err := t.order(a, b); return c > 0, err }
func (t *renderer) ge(a, b any) (bool, error) { c, err := t.order(a, b); return c >= 0, err }

// operand returns a value for the comparison of filters. Its numbers are a json.Number.
func operand(v any) any {
	switch v := v.(type) {
	case int:
		return json.Number(strconv.Itoa(v))
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case float64:
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64))
	}
	return v
}
