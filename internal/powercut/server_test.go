package powercut

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Disk is the server's side of the one connection to the rig; its exported
// methods are what net/rpc asks for. It has one disk at a time, which it mounts
// anew for each cycle.
type Disk struct {
	dir   string
	disk  *disk
	mount mounted
}

// mounted is a mount that this process serves.
type mounted interface{ Unmount() error }

// pipes joins a process's two ends.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// serveDisk is the process that serves the file system. It cannot be one of those
// that use it: a page fault in a mapped file would wait for a goroutine that the
// runtime has stopped (go-fuse issue 261). It ends with its input.
func serveDisk() {
	s := rpc.NewServer()
	if err := s.Register(&Disk{dir: os.Getenv(dirEnv), disk: newDisk()}); err != nil {
		panic(err)
	}
	s.ServeConn(pipes{os.Stdin, os.Stdout})
}

// dirEnv is where the disk is to be mounted.
const dirEnv = "OXYD_POWERCUT_DIR"

// None is an argument or a result that says nothing.
type None struct{}

// Format unmounts what is mounted and mounts an empty disk.
func (s *Disk) Format(None, *None) (err error) {
	if err := s.Unmount(None{}, nil); err != nil {
		return err
	}
	s.disk = newDisk()
	s.mount, err = mountDisk(s.dir, s.disk)
	return err
}

// Unmount takes the disk away from who has it open.
func (s *Disk) Unmount(None, *None) error {
	if s.mount == nil {
		return nil
	}
	err := s.mount.Unmount()
	if err != nil { // somebody's descriptor is late to go
		err = syscall.Unmount(s.dir, syscall.MNT_DETACH)
	}
	s.mount = nil
	return err
}

// Arm says where the next stint ends.
func (s *Disk) Arm(at Point, _ *None) error { s.disk.arm(at); return nil }

// Await returns when the disk has stopped.
func (s *Disk) Await(None, *None) error { <-s.disk.ending().reached; return nil }

// Freeze stops it now.
func (s *Disk) Freeze(None, *None) error { s.disk.freeze(); return nil }

// Release answers, with an error, the operations that a dead client waits for: the
// kernel lets it die only then.
func (s *Disk) Release(None, *None) error { close(s.disk.ending().released); return nil }

// Reboot cuts the power and goes on from one image.
func (s *Disk) Reboot(seed uint64, _ *None) error {
	random := rand.New(rand.NewPCG(seed, 0))
	s.disk.restore(s.disk.image(random.IntN(imagesPerCut), random))
	return nil
}

// Operations tells how many have passed since it was armed.
func (s *Disk) Operations(_ None, n *int) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	*n = s.disk.total
	return nil
}

// Wanted asks for images.
type Wanted struct {
	Dir   string // gets one directory for each, by number
	Seed  uint64
	Count int
}

// Images makes them.
func (s *Disk) Images(w Wanted, _ *None) error {
	for n := range w.Count {
		files := s.disk.image(n, rand.New(rand.NewPCG(w.Seed, uint64(n))))
		if err := writeImage(filepath.Join(w.Dir, fmt.Sprint(n)), files); err != nil {
			return err
		}
	}
	return nil
}

// diskProcess is the rig's side.
type diskProcess struct {
	dir string
	cmd *exec.Cmd
	rpc *rpc.Client
}

func startDisk(dir string) (*diskProcess, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.Command(executable())
	cmd.Env = append(os.Environ(), roleEnv+"="+roleDisk, dirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &diskProcess{dir, cmd, rpc.NewClient(pipes{out, in})}, nil
}

func (d *diskProcess) call(method string, args any) error {
	return d.rpc.Call("Disk."+method, args, &None{})
}

func (d *diskProcess) format() error      { return d.call("Format", None{}) }
func (d *diskProcess) unmount() error     { return d.call("Unmount", None{}) }
func (d *diskProcess) arm(at Point) error { return d.call("Arm", at) }
func (d *diskProcess) freeze() error      { return d.call("Freeze", None{}) }
func (d *diskProcess) release() error     { return d.call("Release", None{}) }

func (d *diskProcess) reboot(seed uint64) error { return d.call("Reboot", seed) }

func (d *diskProcess) await() *rpc.Call {
	return d.rpc.Go("Disk.Await", None{}, &None{}, make(chan *rpc.Call, 1))
}

func (d *diskProcess) images(dir string, seed uint64, count int) error {
	return d.call("Images", Wanted{dir, seed, count})
}

// stop ends the process; its mount goes with it.
func (d *diskProcess) stop() {
	d.unmount()
	d.rpc.Close()
	d.cmd.Wait()
}
