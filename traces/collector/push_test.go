package collector

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cairn-run/cairn/traces"
)

func TestPushSendsThePastInRequestsOfALimit(t *testing.T) {
	c := &collector{}
	p := &Pusher{client: c, to: "x"}
	var spans []traces.Span
	for i := range 1200 {
		spans = append(spans, made(i+1, hour0, hour0+1))
	}
	n, err := p.Push(context.Background(), hour0, traces.Group{Spans: spans})
	fatalIf(t, n != 1200 || err != nil, "%v %v", n, err)
	got := c.count()
	errorIf(t, len(got) != 3 || got[0] != 512 || got[2] != 176, "requests of %v spans", got)
	fault := errors.New("refused")
	c.send = func(context.Context) error {
		if len(c.batches) > 4 {
			return fault
		}
		return nil
	}
	if n, err := p.Push(context.Background(), hour0, traces.Group{Spans: spans}); n != 512 || !errors.Is(err, fault) ||
		!strings.Contains(err.Error(), "x") {
		t.Errorf("Push returned %d, %v", n, err)
	}
}

func TestPushesNameTheCollectorInErrors(t *testing.T) {
	for _, name := range []string{"ENDPOINT", "TRACES_ENDPOINT"} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, "")
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop,region=eu")
	release := make(chan struct{})
	var resource []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m tracepb.TracesData
		err := proto.Unmarshal(body, &m)
		errorIf(t, err != nil, "%v", err)
		switch r.URL.Path {
		case "/ok/v1/traces":
			for _, a := range m.ResourceSpans[0].Resource.Attributes {
				resource = append(resource, a.Key+"="+a.Value.GetStringValue())
			}
		case "/no/v1/traces":
			w.WriteHeader(http.StatusForbidden)
		default:
			<-release
		}
	}))
	defer server.Close()
	defer close(release)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone.Close()
	g := traces.Group{Resource: &traces.Resource{Attributes: []traces.Attribute{traces.String("cairn.actor", "a/b"),
		traces.String("service.name", "cairn")}}, Spans: []traces.Span{made(1, hour0, 0)}}
	for _, c := range []struct {
		endpoint, want string
		sent           int
	}{
		{server.URL + "/ok", "", 1},
		{server.URL + "/no", "the collector replied 403 Forbidden: " + server.URL + "/no/v1/traces", 0},
		{server.URL + "/hangs", server.URL + "/hangs/v1/traces does not answer in time", 0},
		{"http://user:secret@" + gone.Addr().String(),
			"http://user:xxxxx@" + gone.Addr().String() + "/v1/traces cannot be reached: dial", 0},
		{"localhost:4318", "the endpoint is not the URL of an HTTP server", 0},
		{"", "OTEL_EXPORTER_OTLP_ENDPOINT is not the URL", 0},
	} {
		timeout := "60000"
		if strings.HasSuffix(c.endpoint, "/hangs") {
			timeout = "50"
		}
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", timeout)
		p, err := NewPusher(c.endpoint)
		n := 0
		if err == nil {
			n, err = p.Push(t.Context(), hour0+1, g)
			p.Close()
		}
		if n != c.sent || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %d sent, %v", c.endpoint, n, err)
		}
	}
	got := strings.Join(resource, " ")
	errorIf(t, got != "cairn.actor=a/b region=eu service.name=shop", "the resource is %s", got)
}
