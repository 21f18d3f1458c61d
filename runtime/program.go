package runtime

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-run/cairn/actor"
)

// ErrUsage matches, with errors.Is, the errors of Program.Run for wrong arguments, a wrong
// environment or a wrong configuration file.
var ErrUsage = errors.New("runtime: usage")

// ErrStop is what Program.Started returns to end the program without an error.
var ErrStop = errors.New("runtime: stop")

// Main runs a node with these actor types until SIGINT or SIGTERM, and ends the process. The
// program has the flags of Program.Run.
func Main(definitions ...actor.Definition) {
	Program{Name: filepath.Base(os.Args[0]), Actors: definitions}.Main()
}

// A Program is a daemon built on a node: Main with flags and work of its own.
type Program struct {
	// Name is the program's name in messages and in the usage text.
	Name string
	// Actors are the actor types that the node hosts.
	Actors []actor.Definition
	// Dir is the directory of the data unless the flag or the configuration sets another; "" means
	// DefaultDir.
	Dir string
	// Flags, if not nil, adds flags to those of Run.
	Flags func(*flag.FlagSet)
	// NATSServer, if not nil, is Options.NATSServer: localnats.Serve. If it is nil, there is no
	// flag --nats-listen.
	NATSServer func(listen, token, storeDir string, log *slog.Logger) (NATSServer, error)
	// Started, if not nil, runs once the node serves. Its context ends with the program. If it
	// returns ErrStop, the program shuts down and succeeds. With any other error it shuts down and
	// fails. With nil it continues to serve.
	Started func(ctx context.Context, rt *Runtime) error
}

// Main runs the program with the process's arguments until SIGINT or SIGTERM, and ends the process:
// with status 0 after a clean shutdown, 1 after an error, 2 for wrong arguments. A second signal
// ends it at once.
//
// Unless GOMAXPROCS is set in the environment, Main sets it to one more than the processors. A sync
// of the log blocks a thread in the kernel, and the actors should run meanwhile on a machine with
// few processors.
func (p Program) Main() {
	if os.Getenv("GOMAXPROCS") == "" {
		goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0) + 1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the process
	err := p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.Is(err, ErrUsage):
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

// usageError marks an error in the arguments.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Is reports whether the error is a usage error.
func (e *usageError) Is(target error) bool { return target == ErrUsage }

// Run runs the program until ctx ends or Started ends it, and shuts the node down. It logs to
// stderr. The flags are
//
//	--listen ADDRESS       of the HTTP gateway (127.0.0.1:6420)
//	--data DIR             of the data (./data)
//	--nats-listen ADDRESS  runs a NATS server in the process, if the program has one
//	--nats-url URL         uses this NATS server
//	--pprof-listen ADDRESS serves Go's profiles, on loopback; see docs/operate/profile.md
//	--config FILE          a TOML file; see docs/operate/configure.md
//	--accept-data-loss     opens damaged data without what was lost; see docs/operate/damaged-store.md
//
// and CAIRN_TOKEN in the environment is the token that clients must show. Flags override the
// environment, which overrides the file.
//
// Unless GOMEMLIMIT is set in the environment, Run sets Go's soft memory limit to Go's part of
// Options.Memory. Unless GOGC is set, it sets that to 400.
//
// With the arguments "workflow verify" it calls [Verify] instead of running a node. It lists the
// runs that do not fit the code, and its error then matches ErrUnfit. The flags are --data and
// --namespace.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) >= 2 && args[0] == "workflow" && args[1] == "verify" {
		return p.verify(ctx, args[2:], stdout, stderr)
	}
	o, err := p.parse(args, stdout, stderr)
	if err != nil {
		return err
	}
	limitC()
	defer o.limitGo()()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rt, err := Open(ctx, o)
	if err != nil {
		return err
	}
	attrs := []any{"data", o.Dir}
	if addr := rt.Addr(); addr != "" {
		attrs = append(attrs, "http", "http://"+addr)
	}
	if urls := rt.NATSURL(); urls != "" {
		attrs = append(attrs, "nats", withoutPasswords(urls))
	}
	if addr := rt.PprofAddr(); addr != "" {
		attrs = append(attrs, "pprof", "http://"+addr+pprofPath)
	}
	o.Logger.Info("serving", attrs...)
	var started chan error
	if p.Started != nil {
		started = make(chan error, 1)
		go func() { started <- p.Started(ctx, rt) }()
	}
	err = nil
	for waiting := true; waiting; {
		select {
		case err = <-started:
			started = nil
			waiting = err == nil
		case <-ctx.Done():
			waiting = false
		}
	}
	cancel()
	if started != nil {
		err = <-started
	}
	if errors.Is(err, ErrStop) || errors.Is(err, context.Canceled) {
		err = nil
	}
	o.Logger.Info("shutting down")
	return errors.Join(err, rt.Close())
}

// parse reads the flags, the environment and the configuration file.
func (p Program) parse(args []string, stdout, stderr io.Writer) (Options, error) {
	fs := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	var f Options
	fs.StringVar(&f.Listen, "listen", DefaultListen, "`address` of the HTTP gateway; port 0 picks a free one")
	fs.StringVar(&f.Dir, "data", or(p.Dir, DefaultDir), "`directory` of the data")
	if p.NATSServer != nil {
		fs.StringVar(&f.NATSListen, "nats-listen", "", "run a NATS server in the process and listen on this `address`")
	}
	fs.StringVar(&f.NATSURL, "nats-url", "", "publish changes to, and take calls from, the NATS server at this `url`")
	fs.StringVar(&f.PprofListen, "pprof-listen", "", "serve Go's profiles on this `address`, which must be on loopback")
	fs.BoolVar(&f.AcceptDataLoss, "accept-data-loss", false, "open damaged data without what was lost")
	path := fs.String("config", "", "TOML `file` with these and more settings")
	if p.Flags != nil {
		p.Flags(fs)
	}
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "Usage: %s [flags]\n\n", p.Name)
		fs.PrintDefaults()
		fmt.Fprintf(fs.Output(), "\nCAIRN_TOKEN in the environment is the token that clients must show.\n")
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return Options{}, err
		}
		return Options{}, &usageError{err}
	}
	if fs.NArg() > 0 {
		return Options{}, &usageError{fmt.Errorf("unexpected argument %q", fs.Arg(0))}
	}
	o := Options{Listen: DefaultListen, Dir: f.Dir, AcceptDataLoss: f.AcceptDataLoss}
	if *path != "" {
		c, err := readConfig(*path)
		if err != nil {
			return Options{}, &usageError{err}
		}
		c.apply(&o)
	}
	fs.Visit(func(g *flag.Flag) {
		switch g.Name {
		case "listen":
			o.Listen = f.Listen
		case "data":
			o.Dir = f.Dir
		case "pprof-listen":
			o.PprofListen = f.PprofListen
		case "nats-listen":
			o.NATSListen, o.NATSURL = f.NATSListen, ""
		case "nats-url":
			o.NATSURL = f.NATSURL
			if f.NATSListen == "" {
				o.NATSListen = ""
			}
		}
	})
	if f.NATSListen != "" {
		o.NATSURL = f.NATSURL // given both, Validate says that they exclude each other
	}
	if token := os.Getenv("CAIRN_TOKEN"); token != "" {
		o.Token = token
	}
	o.Actors, o.NATSServer = p.Actors, p.NATSServer
	if o.NATSListen != "" && p.NATSServer == nil {
		return Options{},
			&usageError{fmt.Errorf("%s has no NATS server to listen on %s: use one elsewhere with --nats-url", p.Name, o.NATSListen)}
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	if err := o.Validate(); err != nil {
		return Options{}, &usageError{err}
	}
	return o, nil
}

// span is a duration in a configuration file, such as "30s".
type span struct{ d time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *span) UnmarshalText(text []byte) (err error) {
	s.d, err = time.ParseDuration(string(text))
	return err
}

// withoutPasswords returns a list of URLs, separated by commas, without its secrets, for a log.
func withoutPasswords(urls string) string {
	list := strings.Split(urls, ",")
	for i, text := range list {
		if !strings.Contains(text, "@") {
			continue
		}
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.User == nil {
			list[i] = "xxxxx"
			continue
		}
		if _, has := u.User.Password(); !has {
			u.User = url.User("xxxxx") // a token
		}
		list[i] = u.Redacted()
	}
	return strings.Join(list, ",")
}
