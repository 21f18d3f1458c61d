package localnats

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// Defaults and bounds of Options.
const (
	// DefaultMaxPayload is the default bound of a message, with its headers: 1 MiB.
	DefaultMaxPayload = 1 << 20
	// MaxMaxPayload is the largest Options.MaxPayload: 64 MiB, the bound of NATS itself.
	MaxMaxPayload = 64 << 20
)

// Options describe a server. With the zero value, a server has no port and no JetStream, and
// accepts every connection from within the process.
type Options struct {
	// Listen is the address of the client port, as "host:port"; the system chooses for port 0. ""
	// opens no port, so only Connect reaches the server. A host other than loopback is refused
	// unless Token or User is set.
	Listen string
	// ServerName is the name that clients see. For "", NATS generates one.
	ServerName string
	// JetStream enables streams, which need StoreDir.
	JetStream bool
	// StoreDir is the directory of JetStream's data. It is created if missing, and used by one
	// server at a time.
	StoreDir string
	// NoSync makes JetStream acknowledge a message before it is on disk, as NATS does by default: a
	// power cut may lose acknowledged messages of the last two minutes. Without it JetStream syncs
	// first, because an acknowledged sender may forget the message.
	NoSync bool
	// MaxStoreBytes and MaxMemoryBytes bound JetStream's disk and memory. 0 means the defaults of
	// NATS: three quarters of the machine's.
	MaxStoreBytes, MaxMemoryBytes int64
	// MaxPayload is the largest message in bytes, with its headers, up to MaxMaxPayload. 0 means
	// DefaultMaxPayload.
	MaxPayload int
	// Token, or User and Password, are the credentials that every client must show; Connect does so
	// by itself. "" requires none. Token and User exclude each other.
	Token          string
	User, Password string
	// Logger receives the server's log. nil discards it.
	Logger *slog.Logger
}

// Validate reports everything that is wrong with the options, joined into one error.
func (o Options) Validate() error {
	var faults []error
	if o.Listen != "" {
		host, _, err := o.address()
		switch {
		case err != nil:
			faults = append(faults, err)
		case !loopback(host) && o.Token == "" && o.User == "":
			faults = append(faults, &ExposedError{Listen: o.Listen})
		}
	}
	if o.Token != "" && o.User != "" {
		faults = append(faults, errors.New("localnats: Token and User exclude each other"))
	}
	if o.User == "" && o.Password != "" {
		faults = append(faults, errors.New("localnats: a Password needs a User"))
	}
	if o.User != "" && o.Password == "" {
		faults = append(faults, errors.New("localnats: a User needs a Password"))
	}
	if o.JetStream && o.StoreDir == "" {
		faults = append(faults, errors.New("localnats: JetStream needs a StoreDir"))
	}
	if o.MaxPayload < 0 || o.MaxPayload > MaxMaxPayload {
		faults = append(faults,
			fmt.Errorf("localnats: MaxPayload %d is not within 0 to %d", o.MaxPayload, MaxMaxPayload))
	}
	if o.MaxStoreBytes < 0 || o.MaxMemoryBytes < 0 {
		faults = append(faults, errors.New("localnats: MaxStoreBytes and MaxMemoryBytes must not be negative"))
	}
	return errors.Join(faults...)
}

// An ExposedError is the refusal to open a server without credentials to other machines.
type ExposedError struct {
	// Listen is the requested address.
	Listen string
}

// Error says what was refused and what to do.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("localnats: refusing to listen on %s without credentials: set a token or a user, or listen on 127.0.0.1", e.Listen)
}

// address splits Listen. REQUIRES: Listen is not "".
func (o Options) address() (host string, port int, err error) {
	host, service, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("localnats: Listen: %w", err)
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("localnats: Listen %q: the port must be a number from 0 to %d",
			o.Listen, math.MaxUint16)
	}
	return host, int(n), nil
}

// loopback reports whether only this machine can reach host. An empty host is every interface. A
// name other than localhost is not looked up, because its meaning may change.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// logger returns the logger to use.
func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.Level(math.MaxInt)}))
	}
	return o.Logger
}

// server translates the options. REQUIRES: they are valid.
func (o Options) server() *server.Options {
	s := &server.Options{
		ServerName:             o.ServerName,
		DontListen:             o.Listen == "",
		NoSigs:                 true,
		NoLog:                  true,
		MaxPayload:             DefaultMaxPayload,
		JetStream:              o.JetStream,
		StoreDir:               o.StoreDir,
		SyncAlways:             o.JetStream && !o.NoSync,
		JetStreamMaxStore:      o.MaxStoreBytes,
		JetStreamMaxMemory:     o.MaxMemoryBytes,
		DisableJetStreamBanner: true,
		Authorization:          o.Token,
		Username:               o.User,
		Password:               o.Password,
	}
	if o.MaxPayload > 0 {
		s.MaxPayload = int32(o.MaxPayload)
	}
	if o.Listen != "" {
		host, port, _ := o.address()
		if host == "" {
			host = "0.0.0.0"
		}
		if port == 0 {
			port = server.RANDOM_PORT
		}
		s.Host, s.Port = host, port
	}
	return s
}
