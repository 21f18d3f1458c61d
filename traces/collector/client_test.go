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

// configured returns the client of some variables, whose names are cut short.
func configured(t *testing.T, variables map[string]string) (*client, error) {
	t.Helper()
	for name, value := range variables {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	return newClient(spans, "")
}

// replies is a transport that gives its replies in turn, and keeps the bodies of requests.
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
		if err != nil {
			t.Fatal(err)
		}
		r := &replies{list: []*http.Response{nil, reply(503), reply(429, "Retry-After", "100"), reply(200)}}
		c.http.Transport = r
		if _, err := c.upload(t.Context(), 0, groups()); err != nil || len(r.bodies) != 4 || r.bodies[3] != r.bodies[0] {
			t.Errorf("%d attempts, %v", len(r.bodies), err)
		}
		if d := r.times[3].Sub(r.times[2]); d < 100*time.Second {
			t.Errorf("it waited %v", d)
		}
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
			if _, err := c.upload(t.Context(), 0, groups()); err == nil || len(r.bodies) != 1 {
				t.Errorf("%d: %d attempts, %v", status, len(r.bodies), err)
			}
		}
	})
}

func TestRejectedSpansAreCounted(t *testing.T) {
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), "too old")
	message := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
	c, err := configured(t, map[string]string{"ENDPOINT": "http://collector"})
	if err != nil {
		t.Fatal(err)
	}
	ok := reply(200)
	ok.Body = io.NopCloser(bytes.NewReader(message))
	c.http.Transport = &replies{list: []*http.Response{ok}}
	if n, err := c.upload(t.Context(), 0, groups()); n != 7 || err != nil {
		t.Errorf("%d rejected, %v", n, err)
	}
	for body, want := range map[string]int64{
		`{"partialSuccess":{"rejectedSpans":"7","errorMessage":"too old"}}`: 7, `{"partialSuccess":{"rejectedDataPoints":8}}`: 8,
		``: 0, `{}`: 0, `{"partialSuccess":{"rejectedSpans":"many"}}`: 0, `[]`: 0, `{"partialSuccess":null}`: 0,
	} {
		if n := rejectedInJSON([]byte(body)); n != want {
			t.Errorf("%s: %d rejected, want %d", body, n, want)
		}
		j, err := configured(t, map[string]string{"ENDPOINT": "http://collector", "PROTOCOL": "http/json"})
		if err != nil {
			t.Fatal(err)
		}
		ok := reply(200)
		ok.Body = io.NopCloser(strings.NewReader(body))
		j.http.Transport = &replies{list: []*http.Response{ok}}
		if n, err := j.upload(t.Context(), 0, groups()); n != want || err != nil {
			t.Errorf("%s: upload returned %d, %v", body, n, err)
		}
	}
	for _, b := range [][]byte{nil, {0xFF}, {0x0A, 0xFF}, message[:3], {0x08, 1}} {
		if n := rejectedItems(b); n != 0 {
			t.Errorf("%x: %d rejected", b, n)
		}
	}

	fake := &collector{rejects: 2}
	e := startExporter(fake, defaultBatching, quiet)
	s := made(1, hour0, hour0+1)
	e.Export(nil, &s)
	if n, err := (&Pusher{client: &collector{rejects: 1}, to: "x"}).Push(t.Context(), 0, traces.Group{Spans: []traces.Span{s, s, s}}); n != 2 || err == nil || !strings.Contains(err.Error(), "x rejected 1 of 3") {
		t.Errorf("Push returned %d, %v", n, err)
	}
	if err := e.Close(t.Context()); err != nil || e.Dropped() != 2 {
		t.Errorf("dropped %d, %v", e.Dropped(), err)
	}
}

func TestFormsOfRequests(t *testing.T) {
	for _, form := range []string{"http/protobuf", "http/json"} {
		for _, compression := range []string{"none", "gzip"} {
			t.Run(form+" "+compression, func(t *testing.T) {
				c, err := configured(t, map[string]string{"TRACES_ENDPOINT": "http://collector/as/is", "PROTOCOL": form, "COMPRESSION": compression})
				if err != nil || c.url != "http://collector/as/is" {
					t.Fatal(c.url, err)
				}
				r := &replies{list: []*http.Response{reply(200)}}
				c.http.Transport = r
				if _, err := c.upload(t.Context(), hour0+minute, groups()); err != nil {
					t.Fatal(err)
				}
				body := []byte(r.bodies[0])
				if compression == "gzip" {
					g, err := gzip.NewReader(bytes.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					if body, err = io.ReadAll(g); err != nil {
						t.Fatal(err)
					}
				}
				if form == "http/json" {
					if !json.Valid(body) || !strings.Contains(string(body), `"span.partial"`) {
						t.Errorf("the body is %s", body)
					}
					return
				}
				var data tracepb.TracesData
				if err := proto.Unmarshal(body, &data); err != nil || !proto.Equal(&data, &tracepb.TracesData{ResourceSpans: traces.Protobuf(hour0+minute, groups()...)}) {
					t.Errorf("the body is %v, %v", &data, err)
				}
			})
		}
	}
}

func TestFaultyVariablesAreNamedAndSecretsAreNot(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.pem")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"ENDPOINT": "localhost:4318", "TRACES_ENDPOINT": "ftp://secret@host", "PROTOCOL": "grpc", "TRACES_PROTOCOL": "grpc", "COMPRESSION": "zstd",
		"HEADERS": "authorization secret", "TRACES_HEADERS": "a=%zzsecret", "TIMEOUT": "soon", "CERTIFICATE": missing, "TRACES_CERTIFICATE": empty, "CLIENT_CERTIFICATE": missing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector")
			if _, err := configured(t, map[string]string{name: value}); err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+name) || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestCollectorsWithTheirOwnCertificate(t *testing.T) {
	var got string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") + " " + r.URL.Path }))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o666); err != nil {
		t.Fatal(err)
	}
	c, err := configured(t, map[string]string{"ENDPOINT": server.URL + "/base/", "CERTIFICATE": file, "HEADERS": "authorization=Bearer%20x, x-other = y", "TIMEOUT": "60000"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.upload(t.Context(), 0, groups()); err != nil || got != "Bearer x /base/v1/traces" {
		t.Errorf("the server got %q, %v", got, err)
	}
}
