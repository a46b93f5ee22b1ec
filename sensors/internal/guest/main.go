// Program guest is the first process of an emulated board. It mounts what a board
// has, loads the modules by which a program can be a device, serves /dev/i2c-7 with
// chip models on it, starts the real oxyd with a config that reads them, does to
// the wires what happens to wires, and judges what oxyd says.
//
// It owns the board until it powers it off. Its last line on the console is Passed
// or begins with Failed; whoever started the emulator waits for that line. It is
// built and run by internal/qemurig, and of no use elsewhere.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The last line on the console (internal/qemurig waits for it).
const (
	passed = "RIG PASSED"
	failed = "RIG FAILED"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is the first process of an emulated board and nothing else")
		os.Exit(2)
	}
	started := time.Now()
	if err := run(); err != nil {
		fmt.Printf("%s: %s\n", failed, strings.ReplaceAll(err.Error(), "\n", "; "))
	} else {
		fmt.Printf("%s in %s\n", passed, time.Since(started).Round(time.Millisecond))
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // the emulator ends with it
	select {}
}

func run() error {
	if err := prepare(); err != nil {
		return err
	}
	b, err := newBoard()
	if err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	err = tell(b)
	if err != nil {
		b.showLog()
	}
	return err
}

// prepare makes a board of the bare kernel.
func prepare() error {
	for _, m := range []struct{ kind, place string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/data"}, {"tmpfs", "/tmp"},
	} {
		if err := os.MkdirAll(m.place, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.place, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s: %w", m.place, err)
		}
	}
	for _, name := range []string{"fuse", "cuse"} {
		if err := load("/modules/" + name + ".ko"); err != nil {
			return err
		}
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	up, _ := os.ReadFile("/proc/uptime")
	fmt.Printf("guest %s, kernel %s, up %ss\n", runtime.GOARCH, strings.TrimSpace(string(release)), strings.Fields(string(up))[0])
	return loopback()
}

// load loads a module; one that is built in is not there to be loaded.
func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
		return fmt.Errorf("load %s: %w", file, err)
	}
	return nil
}

// loopback turns the loopback interface on.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("turn the loopback interface on: %w", err)
	}
	return nil
}

// daemon is the oxyd under test.
type daemon struct {
	*exec.Cmd
	ended chan error
}

// startOxyd starts the real binary. Its output goes to a file.
func startOxyd(config, log string) (*daemon, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	d := &daemon{exec.Command("/bin/oxyd", "run", "-c", config), make(chan error, 1)}
	d.Stdout, d.Stderr = out, out
	d.Env = []string{"PATH=/bin", "HOME=/data", "TMPDIR=/tmp"}
	if err := d.Start(); err != nil {
		return nil, err
	}
	go func() { d.ended <- d.Wait() }()
	return d, nil
}

// stop asks oxyd to stop and sees that it does so cleanly.
func (d *daemon) stop() error {
	if err := d.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-d.ended:
		return err
	case <-time.After(15 * time.Second):
		return fmt.Errorf("oxyd does not stop")
	}
}
