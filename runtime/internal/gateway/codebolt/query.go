package codebolt

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
)

// The limits of a query.
const (
	maxFilters   = 5
	maxLimit     = 500
	defaultLimit = 100
	// maxPages bounds the calls of kv.list for a query, and so the records that it reads.
	maxPages = 20
	// pageBytes ends a page early, after the record with which the values reach this size.
	pageBytes = 4 << 20
	// together is how many values are read at once in the order of time: about a page of the
	// largest values.
	together = 8
)

// A query is the body of POST query.
type query struct {
	Instance  text     `json:"instance"`
	Namespace text     `json:"namespace"`
	Where     []filter `json:"where" max:"1000"`
	Order     *order   `json:"order"`
	Limit     *int     `json:"limit"`
	Cursor    string   `json:"cursor"`
	Total     bool     `json:"total"`
}

type filter struct {
	Field    string   `json:"field"`
	Operator string   `json:"operator"`
	Value    host.Raw `json:"value,omitempty"`
}

type order struct {
	Field     string `json:"field"`
	Direction string `json:"direction"`
}

// A found is a record in the form of queries.
type found struct {
	Key       string   `json:"key"`
	Value     host.Raw `json:"value"`
	UpdatedAt int64    `json:"updated_at"`
}

// A page is the answer to a query. Total is absent if the client does not request it or counting
// takes too long.
type page struct {
	Records []found `json:"records"`
	HasMore bool    `json:"hasMore"`
	Cursor  *string `json:"cursor"`
	Total   *int64  `json:"total,omitempty"`
}

// A plan is a query in terms of kv.list.
type plan struct {
	kv.ListInput
	byTime  bool
	limit   int
	whole   bool         // all keys of the namespace are selected
	keys    kv.Selection // of all pages
	filters []int        // the filter of each condition
	mark    uint64       // of the query, for its cursors
	at      cursor       // where the page begins
}

// A cursor is the end of a page: after a record, or where a listing stopped after its budget.
type cursor struct {
	Mark   uint64 `json:"m"`
	Behind bool   `json:"b,omitempty"`
	Key    string `json:"k,omitempty"`
	Time   int64  `json:"t,omitempty"` // of the record, if time is the order
	Page   string `json:"p,omitempty"` // of kv.list
}

func (c *cursor) text() (string, error) {
	b, err := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(b), err
}

// runQuery answers POST query.
func runQuery(r *kvrest.Request) (any, error) {
	var q query
	if err := r.Body(&q); err != nil {
		return nil, err
	}
	p, err := q.plan()
	if err != nil {
		return nil, err
	}
	out := &page{Records: []found{}}
	var next *cursor
	if p.byTime {
		next, err = p.sorted(r, out)
	} else {
		next, err = p.inOrder(r, out)
	}
	if err == nil && next != nil {
		next.Mark = p.mark
		var text string
		text, err = next.text()
		out.Cursor, out.HasMore = &text, true
	}
	if err == nil && q.Total {
		out.Total, err = p.total(r)
	}
	return out, err
}

// plan checks a query.
func (q *query) plan() (*plan, error) {
	if err := check(q.Instance.check("instance", maxKey), q.Namespace.check("namespace", maxKey)); err != nil {
		return nil, err
	}
	p := &plan{limit: defaultLimit, whole: true}
	if q.Limit != nil {
		if p.limit = *q.Limit; p.limit < 1 || p.limit > maxLimit {
			return nil, kvrest.Wrong("limit", "limit is %d; it is 1 to %d", p.limit, maxLimit)
		}
	}
	if n := len(q.Where); n > maxFilters {
		return nil, kvrest.Wrong("where", "where has %d filters; the limit is %d", n, maxFilters)
	}
	namespace := kv.Key{part, string(q.Instance), string(q.Namespace)}
	p.Selection = kv.Selection{Start: append(namespace[:3:3], kv.Raw{}), End: append(namespace[:3:3], kv.Raw{0xFF})}
	var conditions []map[string]any
	for i := range q.Where {
		f, place := &q.Where[i], "where["+strconv.Itoa(i)+"]"
		condition, err := f.compile(place)
		if err != nil {
			return nil, err
		}
		if start, end := f.bounds(namespace); start != nil && p.whole {
			p.Start, p.End, p.whole = start, end, false
		} else if condition != nil {
			conditions, p.filters = append(conditions, condition), append(p.filters, i)
		}
	}
	var err error
	if len(conditions) > 0 {
		if p.Where, err = json.Marshal(map[string]any{"$and": conditions}); err != nil {
			return nil, err
		}
	}
	if q.Order != nil {
		if err := q.Order.check(); err != nil {
			return nil, err
		}
		p.byTime, p.Reverse = q.Order.Field == "updated_at", q.Order.Direction == "desc"
	}
	p.keys = p.Selection
	return p, p.begin(q, namespace)
}

func (o *order) check() error {
	if o.Field != "key" && o.Field != "updated_at" {
		return kvrest.Wrong("order.field", "order.field is %.40q; it is key or updated_at", o.Field)
	}
	if o.Direction != "" && o.Direction != "asc" && o.Direction != "desc" {
		return kvrest.Wrong("order.direction", "order.direction is %.40q; it is asc or desc", o.Direction)
	}
	return nil
}

// compile returns the condition of a filter for kv.list; nil matches all records.
func (f *filter) compile(place string) (map[string]any, error) {
	path, operand := "", ""
	switch member, ofValue := strings.CutPrefix(f.Field, "value."); {
	case f.Field == "key":
		path, operand = "$key[3]", "string"
	case f.Field == "updated_at":
		path, operand = "$updated", "number"
	case ofValue && member != "":
		if path = member; path[0] == '$' {
			path = `\` + path
		}
	default:
		return nil, kvrest.Wrong(place+".field",
			"%s.field is %.80q; it is key, updated_at or value.PATH", place, f.Field)
	}
	if f.Operator == "exists" {
		if len(f.Value) > 0 {
			return nil, kvrest.Wrong(place+".value", "%s.value: the operator exists takes no value", place)
		}
		if operand != "" {
			return nil, nil
		}
		return map[string]any{path: map[string]any{"$exists": true}}, nil
	}
	operator, known := map[string]string{
		"=": "$eq", "!=": "$ne", "starts_with": "$startsWith", "contains": "$contains", "in": "$in",
	}[f.Operator]
	if !known {
		return nil, kvrest.Wrong(place+".operator",
			"%s.operator is %.40q; it is =, !=, starts_with, contains, in or exists", place, f.Operator)
	}
	operands := []json.RawMessage{json.RawMessage(f.Value)}
	switch {
	case operator == "$startsWith" || operator == "$contains":
		if operand == "number" {
			return nil, kvrest.Wrong(place+".operator",
				"%s.operator is %s, which does not apply to updated_at", place, f.Operator)
		}
		operand = "string"
	case operator == "$in":
		if operands = nil; json.Unmarshal(f.Value, &operands) != nil || operands == nil {
			return nil, kvrest.Wrong(place+".value", "%s.value is no array, which the operator in takes", place)
		}
	}
	for _, v := range operands {
		if kind := kindOf(v); kind == "" || operand != "" && kind != operand {
			return nil, kvrest.Wrong(place+".value", "%s.value: the operator %s takes a %s here",
				place, f.Operator, cmp.Or(operand, "value"))
		}
	}
	return map[string]any{path: map[string]any{operator: json.RawMessage(f.Value)}}, nil
}

// kindOf returns the kind of a JSON value; "" if there is none.
func kindOf(v json.RawMessage) string {
	if len(v) == 0 {
		return ""
	}
	switch v[0] {
	case '"':
		return "string"
	case '{', '[', 't', 'f', 'n':
		return "other"
	}
	return "number"
}

// bounds returns the range of keys of a filter; nil if the filter is no range of keys.
func (f *filter) bounds(namespace kv.Key) (start, end kv.Key) {
	var s text
	if f.Field != "key" || f.Operator != "=" && f.Operator != "starts_with" || json.Unmarshal(f.Value, &s) != nil {
		return nil, nil
	}
	if f.Operator == "=" {
		start = append(namespace[:3:3], string(s))
		return start, append(start, kv.Raw{0})
	}
	// A string is stored as the byte 2, its bytes and a 0. A byte 0 within it is followed by 0xFF,
	// a byte that no string has.
	stored := append([]byte{2}, strings.ReplaceAll(string(s), "\x00", "\x00\xFF")...)
	return append(namespace[:3:3], kv.Raw(stored)),
		append(namespace[:3:3], kv.Raw(append(stored[:len(stored):len(stored)], 0xFF)))
}

// begin sets the begin of the page to the cursor of the query.
func (p *plan) begin(q *query, namespace kv.Key) error {
	selection, err := json.Marshal([]any{q.Instance, q.Namespace, q.Where, q.Order})
	if err != nil {
		return err
	}
	h := fnv.New64a()
	h.Write(selection)
	p.mark = h.Sum64()
	if q.Cursor == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || kvrest.Decode(b, &p.at) != nil || p.at.Mark != p.mark {
		return kvrest.Wrong("cursor", "the cursor does not belong to this query")
	}
	if !p.at.Behind || p.byTime {
		return nil
	}
	behind := append(namespace[:3:3], p.at.Key)
	if p.Reverse {
		p.End = behind
	} else {
		p.Start = append(behind, kv.Raw{0})
	}
	return nil
}

// record returns the key of a record, if the entry is a record.
func record(e *kv.Entry) (key string, is bool) {
	if len(e.Key) == 4 {
		key, is = e.Key[3].(string)
	}
	return key, is
}

// inOrder fills a page in the order of keys.
func (p *plan) inOrder(r *kvrest.Request, out *page) (*cursor, error) {
	in, size := p.ListInput, 0
	in.Cursor = p.at.Page
	for range maxPages {
		in.Limit = p.limit + 1 - len(out.Records) // one more, to see whether there are more
		var listed kv.ListOutput
		if err := r.Do(host.KVList, &in, &listed); err != nil {
			return nil, p.foreign(err)
		}
		for i := range listed.Entries {
			e := &listed.Entries[i]
			key, is := record(e)
			if !is {
				continue
			}
			if n := len(out.Records); n == p.limit || size >= pageBytes {
				return &cursor{Behind: true, Key: out.Records[n-1].Key}, nil
			}
			out.Records, size = append(out.Records, found{key, e.Value, e.Updated.UnixMilli()}), size+len(e.Value)
		}
		if in.Cursor = listed.Cursor; in.Cursor == "" {
			return nil, nil
		}
	}
	return &cursor{Behind: p.at.Behind, Key: p.at.Key, Page: in.Cursor}, nil
}

// each visits the plan's records in a selection, without their values, and reports whether it has
// visited all.
func (p *plan) each(r *kvrest.Request, keys kv.Selection, visit func(key string, at int64)) (all bool, err error) {
	in := p.ListInput
	in.Selection, in.KeysOnly, in.Limit = keys, true, kv.MaxPage
	for range maxPages {
		var listed kv.ListOutput
		if err := r.Do(host.KVList, &in, &listed); err != nil {
			return false, p.foreign(err)
		}
		for i := range listed.Entries {
			if key, is := record(&listed.Entries[i]); is {
				visit(key, listed.Entries[i].Updated.UnixMilli())
			}
		}
		if in.Cursor = listed.Cursor; in.Cursor == "" {
			return true, nil
		}
	}
	return false, nil
}

// sorted fills a page in the order of time. It holds only as many records as the page has.
func (p *plan) sorted(r *kvrest.Request, out *page) (*cursor, error) {
	type place struct {
		at  int64
		key string
	}
	order := func(a, b place) int {
		c := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key))
		if p.Reverse {
			return -c
		}
		return c
	}
	begin := place{p.at.Time, p.at.Key}
	var first []place // the first records so far, one more than the page has
	all, err := p.each(r, p.Selection, func(key string, at int64) {
		this := place{at, key}
		if p.at.Behind && order(this, begin) <= 0 {
			return
		}
		i, _ := slices.BinarySearchFunc(first, this, order)
		if i > p.limit {
			return
		}
		first = slices.Insert(first, i, this)
		first = first[:min(len(first), p.limit+1)]
	})
	if err != nil {
		return nil, err
	}
	if !all {
		most := int64(maxPages * kv.MaxPage)
		return nil, host.OverLimit("records of a query in the order of updated_at", most, most+1).With("field", "order")
	}
	size := 0
	for from := 0; from < min(len(first), p.limit); from += together {
		if size >= pageBytes {
			return &cursor{Behind: true, Key: first[from-1].key, Time: first[from-1].at}, nil
		}
		var in kv.GetManyInput
		for _, f := range first[from:min(from+together, len(first), p.limit)] {
			in.Keys = append(in.Keys, append(p.Start[:3:3], f.key))
		}
		var values kv.GetManyOutput
		if err := r.Do(host.KVGetMany, &in, &values); err != nil {
			return nil, err
		}
		for i, e := range values.Entries {
			if e != nil { // otherwise it was deleted meanwhile
				out.Records, size = append(out.Records,
					found{first[from+i].key, e.Value, e.Updated.UnixMilli()}), size+len(e.Value)
			}
		}
	}
	if len(first) <= p.limit {
		return nil, nil
	}
	last := first[p.limit-1]
	return &cursor{Behind: true, Key: last.key, Time: last.at}, nil
}

// total returns how many records the query selects on all pages; nil if there are too many to
// count.
func (p *plan) total(r *kvrest.Request) (*int64, error) {
	instance, namespace := p.Start[1].(string), p.Start[2].(string)
	n := int64(0)
	if p.Where == nil && p.whole { // the scope has the count
		err := count(r, instance, func(name string, records int64) {
			if name == namespace {
				n = records
			}
		})
		return &n, err
	}
	all, err := p.each(r, p.keys, func(string, int64) { n++ })
	if err != nil || !all {
		return nil, err
	}
	return &n, nil
}

// foreign adds to an error of kv.list the filter that has it.
func (p *plan) foreign(err error) error {
	e, is := errors.AsType[*host.Error](err)
	if !is {
		return err
	}
	index, found := strings.CutPrefix(e.Metadata["field"], "where.$and[")
	index, _, _ = strings.Cut(index, "]")
	i, numberErr := strconv.Atoi(index)
	if !found || numberErr != nil || i >= len(p.filters) {
		return err
	}
	place := "where[" + strconv.Itoa(p.filters[i]) + "]"
	out := e.With("field", place)
	_, text, _ := strings.Cut(e.Message, ": ")
	out.Message = place + ": " + text
	return out
}
