package traces

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestDocumentsAreParsed(t *testing.T) {
	want := groups()
	want[0].Spans[2].Start = 3
	want[1].Resource, want[1].Spans[0].Partial = &Resource{}, true
	// A document groups spans by scope.
	spans := want[0].Spans
	spans[1], spans[2] = spans[2], spans[1]
	got, err := ParseJSON(AppendJSON(nil, want...))
	errorIf(t, err != nil || !reflect.DeepEqual(got, want), "the groups are\n%+v, %v, want\n%+v", got, err, want)
}

func TestFaultyDocumentsAreRefused(t *testing.T) {
	doc := string(AppendJSON(nil, groups()...))
	for name, c := range map[string][2]string{
		"no JSON":         {"{", "["},
		"short trace id":  {`"traceId":"01`, `"traceId":"`},
		"trace id":        {`"traceId":"01`, `"traceId":"zz`},
		"short span id":   {`"spanId":"01`, `"spanId":"`},
		"span id":         {`"spanId":"01`, `"spanId":"zz`},
		"parent id":       {`"parentSpanId":"05`, `"parentSpanId":"`},
		"kind":            {`"kind":5`, `"kind":6`},
		"status":          {`"code":2`, `"code":3`},
		"time":            {`"startTimeUnixNano":"1`, `"startTimeUnixNano":"x`},
		"integer":         {`"intValue":"-5"`, `"intValue":"5.5"`},
		"double":          {`"doubleValue":1.25`, `"doubleValue":"one"`},
		"id of a link":    {`"traceId":"04`, `"traceId":"zz`},
		"boolean as text": {`"boolValue":true`, `"boolValue":"yes"`},
	} {
		faulty := strings.Replace(doc, c[0], c[1], 1)
		_, err := ParseJSON([]byte(faulty))
		errorIf(t, err == nil || faulty == doc, "%s: no error", name)
	}
}

func TestTraceIDsAreParsed(t *testing.T) {
	id := TraceID{1, 15: 0xAB}
	got, ok := ParseTraceID(id.String())
	errorIf(t, !ok || got != id, "the id is %v, %v", got, ok)
	for _, s := range []string{"", "01", strings.Repeat("0", 32), strings.Repeat("g", 32), strings.Repeat("1", 34)} {
		id, ok := ParseTraceID(s)
		errorIf(t, ok, "%q is %v", s, id)
	}
}

// FuzzParseJSON reads hostile documents. It writes accepted ones and reads them again.
func FuzzParseJSON(f *testing.F) {
	f.Add(AppendJSON(nil, groups()...))
	f.Add(AppendJSON(nil, Group{Spans: workload(2, hour0, 1000)}))
	f.Add(AppendJSON(nil, Group{Spans: []Span{made(1, -7, -5)}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		groups, err := ParseJSON(b)
		if err != nil {
			return
		}
		first := AppendJSON(nil, groups...)
		again, err := ParseJSON(first)
		fatalIf(t, err != nil, "%s: %v", first, err)
		second := AppendJSON(nil, again...)
		errorIf(t, !bytes.Equal(first, second), "the document\n%s becomes\n%s", first, second)
	})
}
