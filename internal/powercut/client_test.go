package powercut

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// job is what a client or a judge is told, as JSON on its input.
type job struct {
	Subject string
	Seed    uint64
	Dir     string   // the client's: the mounted disk
	Lines   []string // what has been said so far
	Images  []string // the judge's: one directory an image
}

// A subject is a store at work and the judgement of what a cut left of it. Both
// run in processes of their own, and all that passes from one to the other is in
// the job: the seed, from which both make the same events, and what was said.
type subject struct {
	// work uses the store in j.Dir until it is killed; it returns when it has
	// nothing more to do. What it says is a promise from the moment that it is said.
	work func(j job, say func(format string, args ...any)) error
	// judge looks at an image in dir. Its error is a finding.
	judge func(j job, dir string) error
}

// Words that every subject may say. Each line is one word and its arguments.
const (
	saysReady = "ready" // the store is open
	saysAck   = "ack"   // an acknowledgement: nothing may lose it any more
	saysAgain = "again" // a repeat was answered as such
	saysDone  = "done"  // by the client process itself: work has returned
)

func subjectNamed(name string) subject {
	switch name {
	case "ledger":
		return subject{ledgerWork, ledgerJudge}
	case "outbox":
		return subject{outboxWork, outboxJudge}
	case "outbox-ids":
		return subject{outboxIDsWork, outboxJudge}
	}
	if fault, ok := strings.CutPrefix(name, "notebook-"); ok {
		return notebook(fault)
	}
	panic("no subject is called " + name)
}

// client is the process under test. When it has nothing more to do it waits to be
// killed, with its store open.
func client() int {
	in := bufio.NewReader(os.Stdin)
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		fmt.Fprintln(os.Stderr, "client: read the job:", err)
		return 1
	}
	say := func(format string, args ...any) {
		// One write for each line: what was promised has left when say returns.
		if _, err := fmt.Fprintf(os.Stdout, format+"\n", args...); err != nil {
			os.Exit(1)
		}
	}
	if err := subjectNamed(j.Subject).work(j, say); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	say(saysDone)
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// stint is one life of a client: it ends at a point of the disk, or when it has
// acknowledged so often, or when it has nothing more to do.
type stint struct {
	At   Point
	Acks int  // 0: however often
	Cut  bool // the power goes then, where another stint follows; else the page cache lives on
}

// stintTimeout bounds one stint. A client that hangs is a finding.
const stintTimeout = 30 * time.Second

// finding is an error that is the subject's fault and not the rig's.
type finding string

func (f finding) Error() string { return string(f) }

// run lets a client work on the disk for one stint, kills it and gives all that it
// said. A client that hangs or ends by itself is a finding.
func (d *diskProcess) run(s stint, j job) ([]string, error) {
	if err := d.arm(s.At); err != nil {
		return nil, err
	}
	c, err := startClient(j, s.Acks)
	if err != nil {
		return nil, err
	}
	reached := d.await()
	timeout := time.NewTimer(stintTimeout)
	defer timeout.Stop()
	hung := false
	select {
	case <-reached.Done:
	case <-c.enough:
	case <-c.ended:
	case <-timeout.C:
		hung = true
	}
	err = d.freeze()
	c.cmd.Process.Kill()
	if rerr := d.release(); err == nil {
		err = rerr
	}
	died := c.wait()
	switch {
	case err != nil:
		return nil, err
	case died != "":
		return c.said, finding("the client ended by itself: " + died)
	case hung:
		return c.said, finding(fmt.Sprintf("the client hung for %v", stintTimeout))
	}
	return c.said, nil
}

// clientProcess is a running client.
type clientProcess struct {
	cmd    *exec.Cmd
	in     io.Closer
	stderr bytes.Buffer
	enough chan struct{} // closed when it has acknowledged enough or is done
	ended  chan struct{} // closed when its output has ended
	said   []string      // complete once ended is closed
}

func startClient(j job, acks int) (*clientProcess, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	c := &clientProcess{cmd: exec.Command(executable()), enough: make(chan struct{}), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+roleClient)
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.in = in
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.listen(out, acks)
	_, err = in.Write(text)
	if err != nil {
		c.cmd.Process.Kill()
		return nil, fmt.Errorf("start a client: %w: %s", err, c.wait())
	}
	return c, nil
}

// listen reads to the end what the client says: what was said before it died was
// promised. A line that it could not finish was not.
func (c *clientProcess) listen(out io.Reader, acks int) {
	defer close(c.ended)
	in := bufio.NewReader(out)
	enough := false
	for got := 0; ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSuffix(line, "\n")
		c.said = append(c.said, line)
		word, _, _ := strings.Cut(line, " ")
		if word == saysAck {
			got++
		}
		if !enough && (word == saysDone || word == saysAck && got == acks) {
			enough = true
			close(c.enough)
		}
	}
}

// wait gives what the client died of, where that was not our signal.
func (c *clientProcess) wait() (died string) {
	<-c.ended
	c.cmd.Wait()
	c.in.Close()
	if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
		return ""
	}
	return c.cmd.ProcessState.String() + "\n" + head(c.stderr.Bytes())
}

// head keeps the beginning of what a process left behind: the first lines tell what it
// died of.
func head(b []byte) string {
	const most = 3000
	if len(b) > most {
		return string(b[:most]) + "…"
	}
	return string(b)
}
