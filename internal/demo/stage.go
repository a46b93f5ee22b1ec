package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"oxyd/ledger"
)

// stage has the consumers' processes and what they have reported. All but the
// readers of their output runs in the goroutine of Run.
type stage struct {
	command []string
	broker  string
	actors  []*actor
	steps   []Step

	news    chan news
	readers sync.WaitGroup
	done    chan struct{} // closed when nobody reads news any more
}

// actor is one consumer over its two lives.
type actor struct {
	role       role
	file       string
	process    *process // nil while none lives
	subscribed bool
	killed     bool // by SIGKILL, which the kernel says
	deliveries []Delivery
}

// process is one life of a consumer.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer // to be read when it has ended

	killing, stopping bool // that it ends is our doing
}

// news is a report, or the end of a process, which is its last.
type news struct {
	from *actor
	report
	ended bool
	err   error // of the end
}

func newStage(o Options, dir, broker string) *stage {
	s := &stage{command: o.Consumer, broker: broker, news: make(chan news), done: make(chan struct{})}
	for i, r := range cast() {
		s.actors = append(s.actors, &actor{role: r, file: filepath.Join(dir, fmt.Sprintf("consumer-%d.bolt", i+1))})
	}
	return s
}

// startAll gives every consumer a process. With crash they stand still where they
// are to be killed.
func (s *stage) startAll(ctx context.Context, crash bool) error {
	for i, a := range s.actors {
		argument, err := json.Marshal(assignment{Role: i, Broker: s.broker, File: a.file, Crash: crash})
		if err != nil {
			return err
		}
		if err := s.start(ctx, a, string(argument)); err != nil {
			return fmt.Errorf("start consumer %q: %w", a.role.name, err)
		}
	}
	return nil
}

func (s *stage) start(ctx context.Context, a *actor, argument string) error {
	if len(s.command) == 0 {
		return errors.New("no command line for it")
	}
	p := &process{cmd: exec.CommandContext(ctx, s.command[0], append(s.command[1:len(s.command):len(s.command)], argument)...)}
	p.cmd.Stderr = &p.stderr
	// A group of its own: the interrupt of a terminal is for us, and we end it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.stdin = stdin
	a.process, a.subscribed = p, false
	s.readers.Go(func() { s.read(a, p, stdout) })
	return nil
}

// read passes on what a process reports, up to its end.
func (s *stage) read(a *actor, p *process, stdout io.Reader) {
	send := func(n news) {
		n.from = a
		select {
		case s.news <- n:
		case <-s.done:
		}
	}
	var err error
	for lines := json.NewDecoder(stdout); err == nil; {
		var r report
		if err = lines.Decode(&r); err == nil {
			send(news{report: r})
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // a line cut by a kill is no fault
		send(news{report: report{Fault: fmt.Sprintf("read its report: %v", err)}})
	}
	_, _ = io.Copy(io.Discard, stdout) // it must not wait for us
	send(news{ended: true, err: p.cmd.Wait()})
}

// await takes news until ok holds for every consumer.
func (s *stage) await(ctx context.Context, what string, ok func(*actor) bool) error {
	var err error
	for err == nil && slices.ContainsFunc(s.actors, func(a *actor) bool { return !ok(a) }) {
		select {
		case n := <-s.news:
			if err = n.from.note(n); err != nil {
				err = fmt.Errorf("consumer %q: %w", n.from.role.name, err)
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil && ctx.Err() != nil { // its end has killed them, too
		return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
	}
	return err
}

// note takes one piece of news in.
func (a *actor) note(n news) error {
	switch {
	case n.ended:
		p := a.process
		a.process = nil
		status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		switch {
		case p.killing && status.Signaled() && status.Signal() == syscall.SIGKILL:
			a.killed = true
		case !p.stopping || n.err != nil:
			return fmt.Errorf("its process ended, %s: %s", p.cmd.ProcessState, strings.TrimSpace(p.stderr.String()))
		}
	case n.Fault != "":
		return errors.New(n.Fault)
	case n.Delivery != nil:
		a.deliveries = append(a.deliveries, *n.Delivery)
	case n.Subscribed:
		a.subscribed = true
	}
	return nil
}

// stopped reports whether it stands where it is to be killed.
func (a *actor) stopped() bool {
	n := len(a.deliveries)
	return n > 0 && a.deliveries[n-1].Killed
}

func (a *actor) seen(id string) int { return deliveriesOf(a.deliveries, id) }

func (a *actor) ended() bool { return a.process == nil }

// killAll ends every consumer as a power cut does.
func (s *stage) killAll(ctx context.Context) error {
	for _, a := range s.actors {
		a.process.killing = true
		if err := a.process.cmd.Process.Kill(); err != nil {
			return fmt.Errorf("kill consumer %q: %w", a.role.name, err)
		}
	}
	return s.await(ctx, "the end of the killed", (*actor).ended)
}

// stopAll lets every consumer end in good order.
func (s *stage) stopAll(ctx context.Context) error {
	for _, a := range s.actors {
		a.process.stopping = true
		if err := a.process.stdin.Close(); err != nil {
			return fmt.Errorf("stop consumer %q: %w", a.role.name, err)
		}
	}
	return s.await(ctx, "the consumers to stop", (*actor).ended)
}

// close leaves no process behind, whatever happened.
func (s *stage) close() {
	close(s.done)
	for _, a := range s.actors {
		if a.process != nil {
			_ = a.process.cmd.Process.Kill() // it may have ended by itself
		}
	}
	s.readers.Wait()
}

func (s *stage) tell(does, what string, sent ...Message) {
	s.steps = append(s.steps, Step{does, what, sent})
}

// result reads what every file holds and judges it.
func (s *stage) result() (Result, error) {
	res := Result{Tank: tankID, Unit: "g", Before: ledger.SumOf(before), Right: ledger.SumOf(right), Steps: s.steps}
	for _, a := range s.actors {
		c := Consumer{Name: a.role.name, Does: a.role.does, Gets: a.role.run.subject.String(), Deliveries: a.deliveries, Why: a.role.why}
		if a.killed {
			c.Killed = a.role.killed
		}
		var unsound, err error
		if c.Holds, unsound, err = a.readFile(); err != nil {
			return Result{}, fmt.Errorf("read the file of consumer %q: %w", a.role.name, err)
		}
		c.Expected = a.role.expectedAfter(a.deliveries)
		c.Right = c.Holds == res.Right
		c.Fault = a.role.judge(&c)
		if c.Fault == "" && unsound != nil {
			first, _, _ := strings.Cut(unsound.Error(), "\n")
			c.Fault = "its file is not sound: " + first
		}
		res.Consumers = append(res.Consumers, c)
	}
	res.AsExpected = res.Err() == nil
	return res, nil
}

// readFile opens the file of a consumer that has ended, reads what it holds and
// checks it.
func (a *actor) readFile() (holds ledger.Sum, unsound, err error) {
	b, err := a.role.open(a.file)
	if err != nil {
		return holds, nil, err
	}
	holds, err = b.holds()
	return holds, b.check(), errors.Join(err, b.Close())
}
