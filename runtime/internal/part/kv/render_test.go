package kv

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// listed are rows with the numbers from 0 as keys and a value each.
type listed struct {
	values []string
	fault  error
}

func (l listed) Get([]byte) (engine.Entry, bool, error) { return engine.Entry{}, false, l.fault }

func (l listed) List(engine.ListQuery) (p engine.Page, err error) {
	for i, v := range l.values {
		p.Entries = append(p.Entries, engine.Entry{Key: keyspace.UserKV.Append(nil, pack("k"+strconv.Itoa(i))), Value: []byte(v)})
	}
	return p, nil
}

func renderWith(rows engine.Reader, text string) (string, error) {
	out, err := render(&reader{rows: rows, now: time.Now()}, &kv.RenderInput{Template: text})
	return out.Text, err
}

// TestC5HostileTemplatesEnd runs templates that would run on, or take all memory.
func TestC5HostileTemplatesEnd(t *testing.T) {
	many := listed{values: make([]string, 5_000)}
	for i := range many.values {
		many.values[i] = strconv.Itoa(i)
	}
	big := listed{values: []string{`"` + strings.Repeat(`\\`, 400<<10) + `"`, `"` + strings.Repeat(`\\`, 400<<10) + `"`}}
	chain := ""
	for i := range 16 {
		chain += `{{define "t` + strconv.Itoa(i) + `"}}` + strings.Repeat(`{{template "t`+strconv.Itoa(i+1)+`"}}`, 50) + `{{end}}`
	}
	for name, c := range map[string]struct {
		rows engine.Reader
		text string
		what string // of the limit
	}{
		"a loop without output":     {nothing{}, `{{range $i := 1000000000000}}{{end}}`, "time"},
		"a loop over a loop":        {many, `{{range .}}{{range $}}{{range $}}{{end}}{{end}}{{end}}`, "time"},
		"a loop that goes on":       {nothing{}, `{{range $i := 1000000000000}}{{continue}}{{end}}`, "time"},
		"a loop with an assignment": {nothing{}, `{{$x := 1}}{{range $i := 1000000000000}}{{$x = $i}}{{end}}`, "time"},
		"a loop in an else": {nothing{},
			`{{if false}}{{else}}{{with 0}}{{else}}{{range 1000000000000}}{{end}}{{end}}{{end}}`, "time"},
		"a loop in a template":         {nothing{}, `{{define "a"}}{{range 1000000000000}}{{end}}{{end}}{{template "a"}}`, "time"},
		"templates that branch":        {nothing{}, chain + `{{define "t16"}}{{end}}{{template "t1"}}`, "time"},
		"a template that calls itself": {nothing{}, `{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, "templates"},
		"templates that call each other": {nothing{},
			`{{define "a"}}{{template "b"}}{{end}}{{define "b"}}{{template "a"}}{{end}}{{template "a"}}`, "templates"},
		"a block that calls itself":  {nothing{}, `{{block "a" .}}{{template "a" .}}{{end}}`, "templates"},
		"much output":                {nothing{}, `{{range 1000000000000}}0123456789{{end}}`, "bytes that the template writes"},
		"much output of one value":   {big, `{{.k0}}{{.k0}}{{.k0}}`, "bytes that the template writes"},
		"values that json doubles":   {nothing{}, `{{$x := "\""}}{{range 1000}}{{$x = json $x}}{{end}}`, "bytes that json makes"},
		"values that variables keep": {big, strings.Repeat(`{{$x := json .}}`, 4000), "bytes that json makes"},
		"comparisons of large values": {big,
			`{{range 1000000000000}}{{if eq .k0 ` + strings.Repeat("$.k1 ", 100) + `}}{{end}}{{end}}`, ""},
		"many comparisons": {big, `{{if eq "" ` + strings.Repeat("$.k1 ", 10_000) + `}}{{end}}`, "ok"},
		"deep parentheses": {nothing{}, `{{` + strings.Repeat(`(`, 20_000) + `1` + strings.Repeat(`)`, 20_000) + `}}`, ""},
		"deep conditions":  {nothing{}, strings.Repeat(`{{if 1}}`, 3_000) + strings.Repeat(`{{end}}`, 3_000), ""},
		"an error in many loops": {nothing{},
			strings.Repeat(`{{range 1}}`, 3_500) + `{{get}}` + strings.Repeat(`{{end}}`, 3_500), ""},
		"the template calls itself": {nothing{}, `{{template "template"}}`, "templates"},
		"a long template":           {nothing{}, strings.Repeat(" ", kv.MaxTemplate+1), "template"},
		"too many entries":          {listed{values: make([]string, kv.MaxRenderEntries+1)}, ``, "entries"},
		"too many bytes":            {listed{values: []string{strings.Repeat(" ", kv.MaxRenderBytes), "1"}}, ``, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := renderWith(c.rows, c.text)
			took := time.Since(start)
			errorIf(t, took > time.Minute, "it took %s", took)
			e, _ := errors.AsType[*host.Error](err)
			switch {
			case e != nil && strings.HasPrefix(e.Metadata["what"], "milliseconds"): // on a slow machine any of them
			case c.what == "ok":
				check(t, err)
			case e == nil:
				t.Fatalf("it was rendered: %v", err)
			case c.what == "time" && strings.HasPrefix(e.Metadata["what"], "steps"):
			case c.what != "" && !strings.HasPrefix(e.Metadata["what"], c.what):
				t.Errorf("%q: %.300s", e.Metadata["what"], e)
			}
		})
	}
}

// slow are rows that take a time to read.
type slow struct {
	listed
	took time.Duration
}

func (s slow) List(q engine.ListQuery) (engine.Page, error) {
	time.Sleep(s.took)
	return s.listed.List(q)
}

// TestTheTimeOfATemplateBeginsWithItsValues reads values that take longer than a template may; the
// template itself does nothing.
func TestTheTimeOfATemplateBeginsWithItsValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := slow{listed: listed{values: []string{`1`}}, took: kv.MaxRenderTime}
		text, err := renderWith(rows, `{{.k0}}`)
		errorIf(t, text != "1" || err != nil, "in time: %q %v", text, err)
		rows.took++
		_, err = renderWith(rows, ``)
		e, is := err.(*host.Error)
		errorIf(t, !is || e.Metadata["what"] != "milliseconds of a template" || e.Metadata["field"] != "prefix", "late: %v", err)
	})
}

func TestTemplatesNestSixteenDeep(t *testing.T) {
	nest := func(n int) string {
		text := `{{define "t` + strconv.Itoa(n) + `"}}end{{end}}{{template "t1"}}`
		for i := 1; i < n; i++ {
			text = `{{define "t` + strconv.Itoa(i) + `"}}{{template "t` + strconv.Itoa(i+1) + `"}}{{end}}` + text
		}
		return text
	}
	if text, err := renderWith(nothing{},
		nest(kv.MaxTemplates)+nest(kv.MaxTemplates)[len(nest(kv.MaxTemplates))-len(`{{template "t1"}}`):]); text != "endend" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	_, err := renderWith(nothing{}, nest(kv.MaxTemplates+1))
	errorIf(t, host.CodeOf(err) != host.TooLarge, "%v", err)
}

// A fault of the store is no fault of the template, and its text is not for callers.
func TestTemplatesDoNotTellFaultsOfTheStore(t *testing.T) {
	broken := errors.New("the disk is broken")
	_, err := renderWith(listed{fault: broken}, `{{get "a"}}`)
	errorIf(t, err != broken, "%v", err)
}

func FuzzRender(f *testing.F) {
	for _, text := range []string{
		`{{.k0}}`, `{{range $k, $v := .}}{{$k}}={{json $v}}{{else}}none{{end}}`, `{{define "a"}}{{.}}{{end}}{{template "a" .k1}}`, `{{with index . "k0"}}{{default 1 .}}{{end}}`,
		`{{range 10}}{{if eq . 3}}{{break}}{{end}}{{continue}}{{end}}`, `{{block "b" (get "k0")}}{{lt 1 2.5}}{{end}}{{/* c */}}{{- len "x" -}}`, `{{(index . "k1").a.b | json}}`,
	} {
		f.Add(text)
	}
	rows := listed{values: []string{`1`, `{"a":{"b":[1,2.5,"x",null,true]}}`}}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := renderWith(rows, text)
		errorIf(t, len(out) > kv.MaxRendered, "too long")
		_, public := errors.AsType[*host.Error](err)
		errorIf(t, err != nil && !public, "%v", err)
	})
}

func (listed) Each(engine.ListQuery, func(*engine.Entry) bool) error { return nil }
