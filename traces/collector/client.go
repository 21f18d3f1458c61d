package collector

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/cairn-run/cairn/traces"
)

const (
	firstRetry  = time.Second
	lastRetry   = 30 * time.Second
	maxResponse = 64 << 10
)

// uploader sends groups to a collector, and returns how many of their spans the collector rejected.
type uploader interface {
	upload(ctx context.Context, now int64, groups []traces.Group) (rejected int64, err error)
	end() // stops retries from now on
	close()
}

// client sends one signal by OTLP over HTTP. OpenTelemetry's own client is not used, because it
// links gRPC and its gateway, some MB. With them go mod tidy also fails in a module with an older
// genproto, which comes with Pebble.
type client struct {
	signal  signal
	http    http.Client
	url     string
	headers http.Header
	gzip    bool
	json    bool
	once    bool // no retry if the collector cannot be reached
	ends    chan struct{}
}

// A signal is the kind of data that a client sends, named as in the path of its URL.
type signal string

const (
	spans   signal = "traces"
	metrics signal = "metrics"
)

func (s signal) upper() string { return strings.ToUpper(string(s)) }

// variable returns the value of a variable for the signal, or else for all signals, and its name.
func (s signal) variable(name string) (value, full string) {
	full = "OTEL_EXPORTER_OTLP_" + s.upper() + "_" + name
	if value = strings.TrimSpace(os.Getenv(full)); value == "" {
		full = "OTEL_EXPORTER_OTLP_" + name
		value = strings.TrimSpace(os.Getenv(full))
	}
	return value, full
}

// positive returns the number in a variable, or 0 if it is not set.
func (s signal) positive(name string) (int, error) {
	text := strings.TrimSpace(os.Getenv(name))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s: %s is %q: want a positive integer", s, name, text)
	}
	return int(n), nil
}

// newClient reads the OTEL_EXPORTER_OTLP_* variables. A non-empty endpoint replaces theirs.
func newClient(s signal, endpoint string) (*client, error) {
	c := &client{signal: s, headers: http.Header{}, ends: make(chan struct{})}
	name := "the endpoint"
	if endpoint == "" {
		endpoint, name = s.variable("ENDPOINT")
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: %s is not the URL of an HTTP server", s, name)
	}
	if !strings.Contains(name, s.upper()) {
		u = u.JoinPath("v1", string(s))
	}
	c.url = u.String()
	switch value, name := s.variable("PROTOCOL"); value {
	case "", "http/protobuf":
	case "http/json":
		c.json = true
	default:
		return nil, fmt.Errorf("%s: %s is %q: the protocols are http/protobuf and http/json", s, name, value)
	}
	switch value, name := s.variable("COMPRESSION"); value {
	case "", "none":
	case "gzip":
		c.gzip = true
	default:
		return nil, fmt.Errorf("%s: %s is %q: the compressions are gzip and none", s, name, value)
	}
	if value, name := s.variable("HEADERS"); value != "" {
		for pair := range strings.SplitSeq(value, ",") {
			key, escaped, ok := strings.Cut(pair, "=")
			text, err := url.PathUnescape(strings.TrimSpace(escaped))
			if key = strings.TrimSpace(key); !ok || err != nil || key == "" {
				return nil, fmt.Errorf("%s: %s has an element that is not key=value", s, name) // values are secrets
			}
			c.headers.Set(key, text)
		}
	}
	c.http.Timeout = 10 * time.Second
	if value, name := s.variable("TIMEOUT"); value != "" {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %s is %q: want milliseconds", s, name, value)
		}
		c.http.Timeout = time.Duration(n) * time.Millisecond
	}
	security, err := s.security()
	if err != nil {
		return nil, err
	}
	c.http.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: security,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 2}
	// A redirect would send the secret headers elsewhere.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// security reads the certificates named by the variables.
func (s signal) security() (*tls.Config, error) {
	security := &tls.Config{}
	if file, name := s.variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s, name, err)
		}
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s: %s has no certificate", s, name, file)
		}
	}
	if file, name := s.variable("CLIENT_CERTIFICATE"); file != "" {
		key, _ := s.variable("CLIENT_KEY")
		certificate, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", s, name, err)
		}
		security.Certificates = []tls.Certificate{certificate}
	}
	return security, nil
}

// upload sends spans, and returns how many the collector rejected.
func (c *client) upload(ctx context.Context, now int64, groups []traces.Group) (rejected int64, err error) {
	if c.json {
		return c.post(ctx, traces.AppendJSON(nil, traces.Ended(now, groups)...))
	}
	// The collector's request message has the same single field.
	b, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: traces.Protobuf(now, groups...)})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.signal, err)
	}
	return c.post(ctx, b)
}

// uploadMetrics sends metrics, and returns how many values the collector rejected.
func (c *client) uploadMetrics(ctx context.Context, m *metricspb.MetricsData) (rejected int64, err error) {
	encode := proto.Marshal
	if c.json {
		encode = protojson.MarshalOptions{UseEnumNumbers: true}.Marshal
	}
	b, err := encode(m)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.signal, err)
	}
	return c.post(ctx, b)
}

// post sends one request. It retries after temporary faults, until ctx ends or end is called.
func (c *client) post(ctx context.Context, body []byte) (rejected int64, err error) {
	if c.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(body); err != nil {
			return 0, fmt.Errorf("%s: %w", c.signal, err)
		}
		if err := w.Close(); err != nil {
			return 0, fmt.Errorf("%s: %w", c.signal, err)
		}
		body = packed.Bytes()
	}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		rejected, after, err := c.send(ctx, body)
		if err == nil || after < 0 {
			return rejected, err
		}
		timer := time.NewTimer(max(after, wait/2+rand.N(wait/2)))
		select {
		case <-timer.C:
		case <-c.ends:
			timer.Stop()
			return 0, err
		case <-ctx.Done():
			timer.Stop()
			return 0, fmt.Errorf("%w (%w)", err, ctx.Err())
		}
	}
}

// send makes one attempt. after is the wait before the next one, or negative if there must be none.
func (c *client) send(ctx context.Context, body []byte) (rejected int64, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return 0, -1, fmt.Errorf("%s: %w", c.signal, err)
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
		return 0, after, fmt.Errorf("%s: %w", c.signal, err)
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
		return 0, after, fmt.Errorf("%s: the collector replied %s", c.signal, response.Status)
	}
	if c.json {
		return rejectedInJSON(reply), 0, nil
	}
	return rejectedItems(reply), 0, nil
}

// rejectedInJSON is rejectedItems for a reply in JSON, where a number may be a string.
func rejectedInJSON(reply []byte) int64 {
	var r struct {
		PartialSuccess struct{ RejectedSpans, RejectedDataPoints json.Number }
	}
	if json.Unmarshal(reply, &r) != nil {
		return 0
	}
	n, err := cmp.Or(r.PartialSuccess.RejectedSpans, r.PartialSuccess.RejectedDataPoints).Int64()
	if err != nil {
		return 0
	}
	return n
}

// rejectedItems returns the member rejected_spans or rejected_data_points (1) of partial_success
// (1) of the reply of a collector.
func rejectedItems(reply []byte) int64 {
	return int64(field(reply, func(b []byte) uint64 {
		return field(b, nil)
	}))
}

// field returns field 1 of a message: a number, or the result of inner for it.
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

func (c *client) end() { close(c.ends) }

func (c *client) close() { c.http.CloseIdleConnections() }
