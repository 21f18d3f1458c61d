package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

const (
	// tailBytes is how much of what a command wrote to standard error is kept with its message.
	tailBytes = 900
	// maxReply bounds the standard output that becomes a reply.
	maxReply = 1 << 20
	// killAfter is how long a command may take to end once it was asked to.
	killAfter = 10 * time.Second
)

// execute runs the command with the message. The result is the reply, if the command makes one.
func (w *Worker) execute(ctx context.Context, m *host.ReceivedMessage) (host.Raw, error) {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	cmd := exec.CommandContext(ctx, w.Command[0], w.Command[1:]...)
	cmd.Env = append(append(os.Environ(), w.Env...),
		"CAIRN_MESSAGE_ID="+strconv.FormatUint(m.ID, 10), "CAIRN_ATTEMPT="+strconv.Itoa(m.Attempt))
	cmd.Stdin = bytes.NewReader(m.Body)
	var end tail
	var out capped
	cmd.Stderr = io.MultiWriter(&end, &shared{w, w.Stderr})
	cmd.Stdout = &shared{w, w.Stdout}
	if w.Reply {
		cmd.Stdout = &out
	}
	cmd.WaitDelay = killAfter
	apart(cmd)

	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() { w.hold(ctx, m, ended, kill) })
	err := cmd.Run()
	close(ended)
	wg.Wait()
	switch said := end.text(); {
	case errors.Is(context.Cause(ctx), errLost):
		return nil, errLost
	case err != nil && said != "":
		return nil, fmt.Errorf("%w: %s", err, said)
	case err != nil:
		return nil, err
	case !w.Reply:
		return nil, nil
	case out.over:
		return nil, fmt.Errorf("the command wrote more than %s, which is no reply", table.Size(maxReply))
	case !json.Valid(out.b.Bytes()):
		return nil, errors.New("what the command wrote is not JSON, so that it is no reply")
	}
	return bytes.TrimSpace(out.b.Bytes()), nil
}

// A shared writer lets several commands write to one stream, a piece at a time.
type shared struct {
	w  *Worker
	to io.Writer
}

func (s *shared) Write(b []byte) (n int, err error) {
	s.w.one(func() { n, err = s.to.Write(b) })
	return n, err
}

// A tail keeps the end of what is written.
type tail struct{ b []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if len(t.b) > 2*tailBytes {
		t.b = append(t.b[:0], t.b[len(t.b)-tailBytes:]...)
	}
	return len(b), nil
}

// text is the end, as valid UTF-8 of at most tailBytes.
func (t *tail) text() string {
	b := bytes.TrimSpace(t.b)
	b = b[max(0, len(b)-tailBytes):]
	return string(bytes.ToValidUTF8(b, nil))
}

// A capped buffer takes maxReply and drops the rest.
type capped struct {
	b    bytes.Buffer
	over bool
}

func (l *capped) Write(b []byte) (int, error) {
	if l.b.Len()+len(b) > maxReply {
		l.over = true
		return len(b), nil
	}
	return l.b.Write(b)
}
