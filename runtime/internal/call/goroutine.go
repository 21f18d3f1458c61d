package call

import (
	"runtime"
	"slices"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
)

// A goroutine is a goroutine that runs the handlers of queries, one at a time, while their callers
// wait: runtime.Goexit cannot be stopped, so a handler that ends its goroutine must not run on its
// caller's.
type goroutine struct {
	begin, end chan struct{}
	// These are what runs between begin and end, and its result.
	r      HandlerQuery
	method int
	out    []byte
	err    error
	over   bool      // the handler has ended the goroutine
	buffer [512]byte // room for a small output
}

// runs keeps a few free goroutines, because they have the stack that handlers need. How many run at
// once is not bounded: handlers may block.
type runs struct {
	mu     sync.Mutex
	free   []*goroutine
	closed bool
}

// run runs the handler of a query and turns a panic, or the end of its goroutine, into an error.
func (p *runs) run(r HandlerQuery, method int) ([]byte, error) {
	q := p.take()
	q.r, q.method = r, method
	q.begin <- struct{}{}
	<-q.end
	out, err := q.out, q.err
	q.r, q.out, q.err = nil, nil, nil
	if q.over {
		return nil, err
	}
	switch {
	case len(out) == 0:
		out = nil
	case &out[0] == &q.buffer[0]:
		out = slices.Clone(out)
	}
	p.give(q)
	return out, err
}

// take returns a free goroutine.
func (p *runs) take() (q *goroutine) {
	p.mu.Lock()
	if last := len(p.free) - 1; last >= 0 {
		q, p.free[last] = p.free[last], nil
		p.free = p.free[:last]
	}
	p.mu.Unlock()
	if q == nil {
		q = &goroutine{begin: make(chan struct{}), end: make(chan struct{})}
		go q.serve()
	}
	return q
}

// give keeps a goroutine, or ends it.
func (p *runs) give(q *goroutine) {
	p.mu.Lock()
	keep := !p.closed && len(p.free) < 4*runtime.GOMAXPROCS(0)
	if keep {
		p.free = append(p.free, q)
	}
	p.mu.Unlock()
	if !keep {
		q.stop()
	}
}

// close ends the free goroutines. The others end with their queries, whose callers end them.
func (p *runs) close() {
	p.mu.Lock()
	free := p.free
	p.free, p.closed = nil, true
	p.mu.Unlock()
	for _, q := range free {
		q.stop()
	}
}

// stop ends a free goroutine.
func (q *goroutine) stop() {
	close(q.begin)
	<-q.end
}

func (q *goroutine) serve() {
	for range q.begin {
		q.run()
		q.end <- struct{}{}
	}
	close(q.end)
}

func (q *goroutine) run() {
	r, returned := q.r.query(), false
	t := r.Actor.Type
	t.Profile.Enter("query", t.Methods[q.method].Name, true)
	defer func() {
		t.Profile.Leave() // a free goroutine belongs to no type
		name := t.Methods[q.method].Name
		switch p := recover(); {
		case p != nil:
			q.out, q.err = nil, r.Actor.Kernel.Crashed(r.Actor.Address, name, p, r.attrs()...)
		case !returned:
			q.err, q.over = host.Errorf(host.Crashed, "the handler %s ended its goroutine", name), true
			close(q.end)
		}
	}()
	state, err := stateOf(r.View, t)
	if err == nil {
		q.out, q.err = t.Query(q.r, q.method, state, r.Request.Codec, r.Request.Input, q.buffer[:0])
	} else {
		q.err = err
	}
	returned = true
}
