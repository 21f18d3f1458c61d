package runtime

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
)

// ErrUnfit matches, with errors.Is, the error of a verification that found runs that do not fit the
// code.
var ErrUnfit = errors.New("runtime: workflow runs do not fit the code")

// A Verification is the result of Verify.
type Verification struct {
	// Runs counts the live workflow runs.
	Runs int
	// Unfit are the runs that would be paused.
	Unfit []UnfitRun
}

// An UnfitRun is a workflow run whose code does not do what its history says.
type UnfitRun struct {
	Type     string   `json:"type"`
	Key      []string `json:"key"`
	Workflow string   `json:"workflow"`
	Run      string   `json:"run"`
	// Reason is the reason of the pause, such as "diverged" or "unknown_workflow", or
	// "undo_missing" for a run that needs an undo that the code no longer has. Report says where
	// the code and the history differ.
	Reason string `json:"reason"`
	Report string `json:"report"`
}

// Verify replays the live workflow runs in a node's data with the code of o.Actors, before that
// code is deployed. It executes no step. Apart from opening the store it writes nothing. It uses
// only the options Dir, Disk, Namespace, Actors and Logger.
//
// The data must not be in use: for a running node, verify a copy, made like a backup. The error
// says why Verify could not do its work; runs that do not fit are no error.
func Verify(ctx context.Context, o Options) (v Verification, err error) {
	if o.Disk == nil {
		if _, err := os.Stat(filepath.Join(o.Dir, "store")); errors.Is(err, fs.ErrNotExist) {
			return v, fmt.Errorf("runtime: there is no node's data in %s", o.Dir)
		}
	}
	o.NATSListen, o.NATSURL, o.NATSConn, o.NATSJetStream = "", "", nil, false
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return v, err
	}
	store, err := openStore(ctx, &o)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s := options.Options{Namespace: o.Namespace}
	for _, d := range o.Actors {
		s.Behaviors = append(s.Behaviors, d.Behavior())
	}
	err = run.VerifyRuns(ctx, store, o.Namespace, s.Behaviors, func(r *run.VerifiedRun) error {
		v.Runs++
		u := UnfitRun{Type: r.Type, Key: r.Key, Workflow: r.Status.Workflow, Run: r.Status.ID}
		switch {
		case r.Err != nil:
			u.Reason, u.Report = "corrupt", r.Err.Error()
		case r.Report.Problem != nil:
			u.Reason, u.Report = string(r.Report.Problem.Reason), r.Report.Problem.Text
		case len(r.Report.MissingUndos) > 0:
			u.Reason = "undo_missing"
			u.Report = "should the run fail, it has to undo what the code no longer knows how to undo: " + strings.Join(r.Report.MissingUndos, ", ")
		default:
			return nil
		}
		v.Unfit = append(v.Unfit, u)
		return nil
	})
	return v, err
}

// verify is the program's command "workflow verify".
func (p Program) verify(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet(p.Name+" workflow verify", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o := Options{Actors: p.Actors,
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	flags.StringVar(&o.Dir, "data", or(p.Dir, DefaultDir), "`directory` of the data, or of a copy of it")
	flags.StringVar(&o.Namespace, "namespace", "", "`namespace` of the actors; the usual one if empty")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(),
			"Usage: %s workflow verify [flags]\n\nReplays every workflow run that lives with the code of this program, read-only, and lists those that do not fit it.\n\n", p.Name)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return &usageError{err}
	}
	if flags.NArg() > 0 {
		return &usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	v, err := Verify(ctx, o)
	if err != nil {
		return err
	}
	for _, u := range v.Unfit {
		fmt.Fprintf(stdout, "%s/%s: workflow %s, run %s: %s\n", u.Type, strings.Join(u.Key, "/"),
			u.Workflow, u.Run, u.Reason)
		for line := range strings.Lines(u.Report) {
			fmt.Fprintf(stdout, "    %s\n", strings.TrimRight(line, "\n"))
		}
	}
	if n := len(v.Unfit); n > 0 {
		return fmt.Errorf("%w: %d of %d", ErrUnfit, n, v.Runs)
	}
	fmt.Fprintf(stdout, "%d runs fit the code\n", v.Runs)
	return nil
}
