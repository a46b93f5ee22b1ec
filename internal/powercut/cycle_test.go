package powercut

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// plan is one cycle: an empty disk, some stints that end in a crash of the process
// or in a cut after which the client goes on from one image, a last one that ends
// in the cut, and images of what is left.
type plan struct {
	subject string
	seed    uint64
	stints  []stint
	images  int
	timeout time.Duration // of the judgement of one image; 0: judgeTimeout
}

func (p plan) String() string {
	return fmt.Sprintf("%s, seed %d, stints %+v", p.subject, p.seed, p.stints)
}

// tally adds up what was done.
type tally struct {
	mu           sync.Mutex
	cuts, images int
	acks, bad    int // bad: images in which something is wrong
	again        int // repeats that were answered as such after a crash
	findings     []string
	took         time.Duration
}

// findingsMax ends a run early: a mutant need not be found a hundred times.
const findingsMax = 3

func (s *tally) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.findings) >= findingsMax
}

func (s *tally) String() string {
	return fmt.Sprintf("%d images of %d cuts, %d acknowledgements, %d images bad, %.0f images/s",
		s.images, s.cuts, s.acks, s.bad, float64(s.images)/s.took.Seconds())
}

func (s *tally) add(o *tally) {
	s.cuts, s.images, s.acks, s.bad, s.again = s.cuts+o.cuts, s.images+o.images, s.acks+o.acks, s.bad+o.bad, s.again+o.again
	s.took += o.took
}

// rig is where cycles run: a directory in memory, and a disk for each worker.
type rig struct {
	dir   string
	disks []*diskProcess
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: newWorkshop(t)}
	for n := range max(runtime.GOMAXPROCS(0), 2) {
		d, err := startDisk(filepath.Join(r.dir, fmt.Sprintf("disk-%d", n)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.stop)
		r.disks = append(r.disks, d)
	}
	return r
}

// runAll runs plans until next gives no more, on all disks at once, and stops early
// when enough is wrong. next is called by one at a time.
func (r *rig) runAll(next func() (plan, bool)) (*tally, error) {
	var (
		sum   tally
		mu    sync.Mutex
		wg    sync.WaitGroup
		fault error
		start = time.Now()
	)
	for _, d := range r.disks {
		wg.Go(func() {
			for {
				mu.Lock()
				p, more := next()
				more = more && fault == nil && !sum.failed()
				mu.Unlock()
				if !more {
					return
				}
				if err := r.cycle(d, p, &sum); err != nil {
					mu.Lock()
					fault = errors.Join(fault, fmt.Errorf("%v: %w", p, err))
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	sum.took = time.Since(start)
	return &sum, fault
}

// cycle runs one plan. Its error is the rig's own; what the subject does wrong
// goes into the tally.
func (r *rig) cycle(d *diskProcess, p plan, sum *tally) error {
	if err := d.format(); err != nil {
		return err
	}
	j := job{Subject: p.subject, Seed: p.seed, Dir: d.dir}
	for n, s := range p.stints {
		if n > 0 && p.stints[n-1].Cut {
			if err := d.reboot(p.seed + uint64(n)); err != nil {
				return err
			}
		}
		lines, err := d.run(s, j)
		j.Lines = append(j.Lines, lines...)
		if f, ok := errors.AsType[finding](err); ok {
			sum.count(p, j.Lines, nil, []string{f.Error()})
			return nil
		}
		if err != nil {
			return err
		}
	}
	dir := filepath.Join(r.dir, "images-"+filepath.Base(d.dir))
	defer os.RemoveAll(dir)
	if err := d.images(dir, p.seed, p.images); err != nil {
		return err
	}
	for n := range p.images {
		j.Images = append(j.Images, filepath.Join(dir, fmt.Sprint(n)))
	}
	if p.timeout == 0 {
		p.timeout = judgeTimeout
	}
	verdicts, err := judgeAll(j, p.timeout)
	if err != nil {
		return err
	}
	sum.count(p, j.Lines, verdicts, nil)
	return nil
}

func (s *tally) count(p plan, lines, verdicts, findings []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts++
	s.images += len(verdicts)
	for _, line := range lines {
		if strings.HasPrefix(line, saysAck+" ") {
			s.acks++
		}
		if strings.HasPrefix(line, saysAgain+" ") {
			s.again++
		}
	}
	for n, v := range verdicts {
		if v != "" {
			s.bad++
			findings = append(findings, fmt.Sprintf("image %d: %s", n, v))
		}
	}
	for _, f := range findings {
		s.findings = append(s.findings, fmt.Sprintf("%v: %s", p, f))
	}
}

// report fails the test with the first findings.
func (s *tally) report(t *testing.T) {
	t.Helper()
	t.Log(s)
	for n, f := range s.findings {
		if n == findingsMax {
			break
		}
		t.Error(f)
	}
}

// draw gives the seed of a test and says how to come by it again.
func draw(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed: go test ./internal/powercut -run '%s' -powercut.seed=%d -powercut.images=%d", t.Name(), seed, *imagesFlag)
	return rand.New(rand.NewPCG(seed, 0))
}
