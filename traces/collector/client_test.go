package collector

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/cairn-run/cairn/traces"
)

// configured returns the client for some variables, given without their prefix.
func configured(t *testing.T, variables map[string]string) (*client, error) {
	t.Helper()
	for name, value := range variables {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	return newClient(spans, "")
}

// replies is a transport that returns its replies in turn, and keeps the bodies of requests.
type replies struct {
	list   []*http.Response
	bodies []string
	times  []time.Time
}

func (r *replies) RoundTrip(request *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r.bodies, r.times = append(r.bodies, string(b)), append(r.times, time.Now())
	next := r.list[0]
	if len(r.list) > 1 {
		r.list = r.list[1:]
	}
	if next == nil {
		return nil, errors.New("connection refused")
	}
	if next.Body == nil {
		next.Body = http.NoBody
	}
	next.Request = request
	return next, nil
}

func reply(status int, header ...string) *http.Response {
	r := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestUploadsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := configured(t, map[string]string{"ENDPOINT": "http://collector"})
		must(t, err)
		r := &replies{list: []*http.Response{nil, reply(503), reply(429, "Retry-After", "100"), reply(200)}}
		c.http.Transport = r
		if _, err := c.upload(t.Context(), 0, groups()); err != nil || len(r.bodies) != 4 || r.bodies[3] != r.bodies[0] {
			t.Errorf("%d attempts, %v", len(r.bodies), err)
		}
		d := r.times[3].Sub(r.times[2])
		errorIf(t, d < 100*time.Second, "it waited %v", d)
		r = &replies{list: []*http.Response{reply(503)}}
		c.http.Transport = r
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.upload(ctx, 0, groups()); !errors.Is(err, context.DeadlineExceeded) || len(r.bodies) < 3 || len(r.bodies) > 10 {
			t.Errorf("%d attempts, %v", len(r.bodies), err)
		}
		r = &replies{list: []*http.Response{reply(503)}}
		c.http.Transport = r
		time.AfterFunc(10*time.Second, c.end)
		if _, err := c.upload(t.Context(), 0, groups()); err == nil || len(r.bodies) < 3 || time.Since(r.times[0]) > 10*time.Second {
			t.Errorf("%d attempts until it should end, %v", len(r.bodies), err)
		}
		for _, status := range []int{307, 400, 401, 500} {
			r := &replies{list: []*http.Response{reply(status, "Location", "http://elsewhere/")}}
			c.http.Transport = r
			_, err := c.upload(t.Context(), 0, groups())
			errorIf(t, err == nil || len(r.bodies) != 1, "%d: %d attempts, %v", status, len(r.bodies), err)
		}
	})
}

func TestFormsOfRequests(t *testing.T) {
	for _, form := range []string{"http/protobuf", "http/json"} {
		for _, compression := range []string{"none", "gzip"} {
			t.Run(form+" "+compression, func(t *testing.T) {
				c, err := configured(t,
					map[string]string{"TRACES_ENDPOINT": "http://collector/as/is", "PROTOCOL": form, "COMPRESSION": compression})
				fatalIf(t, err != nil || c.url != "http://collector/as/is", "%v %v", c.url, err)
				r := &replies{list: []*http.Response{reply(200)}}
				c.http.Transport = r
				if _, err := c.upload(t.Context(), hour0+minute, groups()); err != nil {
					t.Fatal(err)
				}
				body := []byte(r.bodies[0])
				if compression == "gzip" {
					g, err := gzip.NewReader(bytes.NewReader(body))
					must(t, err)
					body, err = io.ReadAll(g)
					must(t, err)
				}
				if form == "http/json" {
					errorIf(t, !json.Valid(body) || !strings.Contains(string(body), `"span.partial"`), "the body is %s", body)
					return
				}
				var data tracepb.TracesData
				if err := proto.Unmarshal(body, &data); err != nil ||
					!proto.Equal(&data, &tracepb.TracesData{ResourceSpans: traces.Protobuf(hour0+minute, groups()...)}) {
					t.Errorf("the body is %v, %v", &data, err)
				}
			})
		}
	}
}

func TestRejectedSpansAreCounted(t *testing.T) {
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), "too old")
	message := string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial))
	for form, replied := range map[string]map[string]int64{
		"http/protobuf": {message: 7, "": 0, "\xFF": 0, "\x0A\xFF": 0, message[:3]: 0, "\x08\x01": 0},
		"http/json": {
			`{"partialSuccess":{"rejectedSpans":"7","errorMessage":"too old"}}`: 7, `{"partialSuccess":{"rejectedDataPoints":8}}`: 8,
			``: 0, `{}`: 0, `{"partialSuccess":{"rejectedSpans":"many"}}`: 0, `[]`: 0, `{"partialSuccess":null}`: 0,
		},
	} {
		c, err := configured(t, map[string]string{"ENDPOINT": "http://collector", "PROTOCOL": form})
		must(t, err)
		for body, want := range replied {
			ok := reply(200)
			ok.Body = io.NopCloser(strings.NewReader(body))
			c.http.Transport = &replies{list: []*http.Response{ok}}
			n, err := c.upload(t.Context(), 0, groups())
			errorIf(t, n != want || err != nil, "%q: upload returned %d, %v", body, n, err)
		}
	}
	e := startExporter(&collector{rejects: 2}, defaultBatching, quiet)
	s := made(1, hour0, hour0+1)
	e.Export(nil, &s)
	if err := e.Close(t.Context()); err != nil || e.Dropped() != 2 {
		t.Errorf("dropped %d, %v", e.Dropped(), err)
	}
	p := &Pusher{client: &collector{rejects: 1}, to: "x"}
	n, err := p.Push(t.Context(), 0, traces.Group{Spans: []traces.Span{s, s, s}})
	errorIf(t, n != 2 || err == nil || !strings.Contains(err.Error(), "x rejected 1 of 3"), "Push returned %d, %v", n, err)
}

// TestVariables sets one variable at a time. The error names a wrong one, but not its secret.
func TestVariables(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.pem")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must(t, os.WriteFile(empty, nil, 0o666))
	const on, off, wrong = "on", "off", "wrong"
	for _, c := range []struct{ name, value, spans, metrics string }{
		{"EXPORTER_OTLP_ENDPOINT", "", off, off},
		{"EXPORTER_OTLP_ENDPOINT", "localhost:4318", wrong, wrong},
		{"EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://secret@host", wrong, on},
		{"EXPORTER_OTLP_METRICS_ENDPOINT", "http://other/as/is", on, on},
		{"EXPORTER_OTLP_PROTOCOL", "grpc", wrong, wrong},
		{"EXPORTER_OTLP_PROTOCOL", "http/json", on, on},
		{"EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", wrong, on},
		{"EXPORTER_OTLP_METRICS_PROTOCOL", "grpc", on, wrong},
		{"EXPORTER_OTLP_COMPRESSION", "zstd", wrong, wrong},
		{"EXPORTER_OTLP_HEADERS", "authorization secret", wrong, wrong},
		{"EXPORTER_OTLP_TRACES_HEADERS", "a=%zzsecret", wrong, on},
		{"EXPORTER_OTLP_TIMEOUT", "soon", wrong, wrong},
		{"EXPORTER_OTLP_CERTIFICATE", missing, wrong, wrong},
		{"EXPORTER_OTLP_TRACES_CERTIFICATE", empty, wrong, on},
		{"EXPORTER_OTLP_CLIENT_CERTIFICATE", missing, wrong, wrong},
		{"EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta", on, wrong},
		{"EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Cumulative", on, on},
		{"TRACES_EXPORTER", "zipkin", wrong, on},
		{"TRACES_EXPORTER", "none", off, on},
		{"METRICS_EXPORTER", "none", on, off},
		{"METRICS_EXPORTER", "prometheus", on, off},
		{"METRICS_EXPORTER", "prometheus, otlp", on, on},
		{"METRICS_EXPORTER", "console", on, wrong},
		{"SDK_DISABLED", "TRUE", off, off},
		{"BSP_MAX_QUEUE_SIZE", "-1", wrong, on},
		{"BSP_MAX_QUEUE_SIZE", "10", on, on},
		{"BSP_SCHEDULE_DELAY", "soon", wrong, on},
		{"BSP_EXPORT_TIMEOUT", "99999999999", wrong, on},
		{"METRIC_EXPORT_INTERVAL", "0", on, wrong},
		{"METRIC_EXPORT_TIMEOUT", "soon", on, wrong},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv("OTEL_"+c.name, c.value)
			e, err := NewExporter(quiet)
			if e != nil {
				defer e.Close(context.Background())
			}
			m, merr := newMetricExporter(nil, nil, quiet)
			for want, got := range map[*string]struct {
				runs bool
				err  error
			}{&c.spans: {e != nil, err}, &c.metrics: {m != nil, merr}} {
				named := got.err != nil && strings.Contains(got.err.Error(), "OTEL_"+c.name) && !strings.Contains(got.err.Error(), "secret")
				if got.runs != (*want == on) || (got.err != nil) != (*want == wrong) || got.err != nil && !named {
					t.Errorf("runs %v, %v; want %s", got.runs, got.err, *want)
				}
			}
			errorIf(t, strings.HasSuffix(c.value, "/as/is") && m.client.url != c.value, "the URL is not %s", c.value)
		})
	}
}

// TestTheEnvironmentConfiguresTheExporter exports to a collector with its own certificate.
func TestTheEnvironmentConfiguresTheExporter(t *testing.T) {
	got := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m tracepb.TracesData
		body, err := io.ReadAll(r.Body)
		err = errors.Join(err, proto.Unmarshal(body, &m))
		errorIf(t, err != nil, "%v", err)
		got <- r.Header.Get("Authorization") + " " + r.Header.Get("X-Tenant") + " " + r.URL.Path + " " +
			m.ResourceSpans[0].ScopeSpans[0].Spans[0].Name
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must(t, os.WriteFile(file, certificate, 0o666))
	for name, value := range map[string]string{
		"EXPORTER_OTLP_ENDPOINT": server.URL + "/base/", "EXPORTER_OTLP_CERTIFICATE": file, "EXPORTER_OTLP_TIMEOUT": "60000",
		"EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x, x-tenant = seven", "BSP_MAX_EXPORT_BATCH_SIZE": "1",
	} {
		t.Setenv("OTEL_"+name, value)
	}
	e, err := NewExporter(quiet)
	fatalIf(t, err != nil || e == nil, "%v %v", e, err)
	s := made(1, hour0, hour0+1)
	e.Export(nil, &s)
	if got := <-got; got != "Bearer x seven /base/v1/traces work" {
		t.Errorf("the collector got %q", got)
	}
	if err := e.Close(t.Context()); err != nil || e.Dropped() != 0 {
		t.Error(err, e.Dropped())
	}
}
