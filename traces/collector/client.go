package collector

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/cairn-run/cairn/traces"
)

const (
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second
	maxResponse = 64 << 10
)

// uploader sends groups to a collector, and returns how many of their spans it rejected.
type uploader interface {
	upload(ctx context.Context, now int64, groups []traces.Group) (rejected int64, err error)
	close()
}

// client is an uploader of OTLP over HTTP. OpenTelemetry's own client is not used, because it links gRPC and its gateway, some MB.
// They also make go mod tidy fail in a module that has an older genproto, which comes with Pebble.
type client struct {
	http    http.Client
	url     string
	headers http.Header
	gzip    bool
	json    bool
	once    bool // a collector that cannot be reached is not tried again
}

// variable returns the value of a variable for traces, or else for all signals, and its name.
func variable(name string) (value, full string) {
	full = "OTEL_EXPORTER_OTLP_TRACES_" + name
	if value = strings.TrimSpace(os.Getenv(full)); value == "" {
		full = "OTEL_EXPORTER_OTLP_" + name
		value = strings.TrimSpace(os.Getenv(full))
	}
	return value, full
}

// newClient reads the OTEL_EXPORTER_OTLP_* variables. An endpoint that is not empty replaces theirs.
func newClient(endpoint string) (*client, error) {
	c := &client{headers: http.Header{}}
	name := "the endpoint"
	if endpoint == "" {
		endpoint, name = variable("ENDPOINT")
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("traces: %s is not the URL of an HTTP server", name)
	}
	if !strings.Contains(name, "TRACES") {
		u = u.JoinPath("v1/traces")
	}
	c.url = u.String()
	switch value, name := variable("PROTOCOL"); value {
	case "", "http/protobuf":
	case "http/json":
		c.json = true
	default:
		return nil, fmt.Errorf("traces: %s is %q: the protocols are http/protobuf and http/json", name, value)
	}
	switch value, name := variable("COMPRESSION"); value {
	case "", "none":
	case "gzip":
		c.gzip = true
	default:
		return nil, fmt.Errorf("traces: %s is %q: the compressions are gzip and none", name, value)
	}
	if value, name := variable("HEADERS"); value != "" {
		for pair := range strings.SplitSeq(value, ",") {
			key, escaped, ok := strings.Cut(pair, "=")
			text, err := url.PathUnescape(strings.TrimSpace(escaped))
			if key = strings.TrimSpace(key); !ok || err != nil || key == "" {
				return nil, fmt.Errorf("traces: %s has an element that is not key=value", name) // values are secrets
			}
			c.headers.Set(key, text)
		}
	}
	c.http.Timeout = 10 * time.Second
	if value, name := variable("TIMEOUT"); value != "" {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("traces: %s is %q: want milliseconds", name, value)
		}
		c.http.Timeout = time.Duration(n) * time.Millisecond
	}
	security, err := newSecurity()
	if err != nil {
		return nil, err
	}
	c.http.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: security, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 2}
	// A redirect would send the headers, which are secrets, elsewhere.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// newSecurity reads the certificates that the variables name.
func newSecurity() (*tls.Config, error) {
	security := &tls.Config{}
	if file, name := variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("traces: %s: %w", name, err)
		}
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("traces: %s: %s has no certificate", name, file)
		}
	}
	if file, name := variable("CLIENT_CERTIFICATE"); file != "" {
		key, _ := variable("CLIENT_KEY")
		certificate, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("traces: %s: %w", name, err)
		}
		security.Certificates = []tls.Certificate{certificate}
	}
	return security, nil
}

// body returns the bytes of a request.
func (c *client) body(now int64, groups []traces.Group) ([]byte, error) {
	var b []byte
	if c.json {
		b = traces.AppendJSON(nil, traces.Ended(now, groups)...)
	} else {
		var err error
		// The request message of the collector has the same one field.
		if b, err = proto.Marshal(&tracepb.TracesData{ResourceSpans: traces.Protobuf(now, groups...)}); err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
	}
	if !c.gzip {
		return b, nil
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(b); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return packed.Bytes(), nil
}

// upload sends one request. It tries again after faults that go away, until ctx ends.
func (c *client) upload(ctx context.Context, now int64, groups []traces.Group) (int64, error) {
	body, err := c.body(now, groups)
	if err != nil {
		return 0, err
	}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		rejected, after, err := c.send(ctx, body)
		if err == nil || after < 0 {
			return rejected, err
		}
		timer := time.NewTimer(max(after, wait/2+rand.N(wait/2)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, fmt.Errorf("%w (%w)", err, ctx.Err())
		}
	}
}

// send makes one attempt. after is how long to wait before the next one, or negative if there must be none.
func (c *client) send(ctx context.Context, body []byte) (rejected int64, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return 0, -1, fmt.Errorf("traces: %w", err)
	}
	r.Header = c.headers.Clone()
	r.Header.Set("User-Agent", "cairn")
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.json {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	response, err := c.http.Do(r)
	if err != nil {
		if c.once {
			after = -1
		}
		return 0, after, fmt.Errorf("traces: %w", err)
	}
	defer response.Body.Close()
	reply, _ := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16)
		after = time.Duration(seconds) * time.Second
	default:
		after = -1
	}
	if response.StatusCode/100 != 2 {
		return 0, after, fmt.Errorf("traces: the collector replied %s", response.Status)
	}
	if !c.json {
		rejected = rejectedSpans(reply)
	}
	return rejected, 0, nil
}

// rejectedSpans returns the member rejected_spans (1) of partial_success (1) of the reply of a collector.
func rejectedSpans(reply []byte) int64 {
	return int64(field(reply, func(b []byte) uint64 {
		return field(b, nil)
	}))
}

// field returns field 1 of a message: a number, or what inner makes of it.
func field(b []byte, inner func([]byte) uint64) (n uint64) {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return 0
		}
		value := b[size:]
		if size = protowire.ConsumeFieldValue(number, kind, value); size < 0 {
			return 0
		}
		switch {
		case number == 1 && kind == protowire.BytesType && inner != nil:
			message, _ := protowire.ConsumeBytes(value)
			n = inner(message)
		case number == 1 && kind == protowire.VarintType && inner == nil:
			n, _ = protowire.ConsumeVarint(value)
		}
		b = value[size:]
	}
	return n
}

func (c *client) close() { c.http.CloseIdleConnections() }
