// Package powercut cuts the power under the real stores and looks at what is
// left on the disk. It has no code of its own.
//
// The disk is a FUSE file system that keeps two images of every file: what the
// page cache shows, and what a sync has moved to the platter (disk_test.go). A
// client in a process of its own works on it through the product's packages and
// says, line by line, what it has promised. The cut stops the disk, kills the
// client with the signal that nobody can catch, reads its promises to the end, and
// makes images: what was durable, and of what was not a random part, sector by
// sector (image_test.go). Each image is opened and judged in yet another process
// with a timeout (judge_test.go), for a fault in a mapped file cannot be caught
// and a damaged tree can hang whoever walks it; both are findings here.
//
//	go test ./internal/powercut                            1,000 images
//	go test ./internal/powercut -powercut.images 10000     the long run
//	go test ./internal/powercut -powercut.seed N           one failure again
//
// Where the cut falls is drawn from the seed and counted in operations of the
// disk, not in time. What the seed does not fix is how the goroutines of a client
// interleave, and random epochs and file names.
//
// All of it happens in a mount namespace of its own, so that no mount outlives the
// test, however it ends; and where the user is not root, in a user namespace too.
// Where the kernel gives neither, or no /dev/fuse, the tests skip and say why.
//
// What it does not show: reordering inside of a device that lies about its cache,
// damage to sectors that were not being written, and what a real ext4 does under
// dm-flakey. The images here are a superset of what a disk may keep that honours
// its flushes.
package powercut

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

var (
	imagesFlag   = flag.Int("powercut.images", 1000, "how many images are made and judged, at least (10000 in the long run)")
	seedFlag     = flag.Uint64("powercut.seed", 0, "seed of what the tests draw; 0 draws one")
	requiredFlag = flag.Bool("powercut.required", false, "fail where there is no FUSE instead of skipping")
)

// roleEnv says what a process started from the test binary is to be.
const roleEnv = "OXYD_POWERCUT_ROLE"

// The roles. Without one the process is the one that go test has started.
const (
	roleRig    = "rig"    // runs the tests, in the namespace
	roleDisk   = "disk"   // serves the file system
	roleClient = "client" // works on it until it is killed
	roleJudge  = "judge"  // looks at images
)

func TestMain(m *testing.M) {
	flag.Parse()
	switch os.Getenv(roleEnv) {
	case roleDisk:
		serveDisk()
	case roleClient:
		os.Exit(client())
	case roleJudge:
		os.Exit(judge())
	case roleRig:
		os.Exit(m.Run())
	default:
		os.Exit(isolate(m))
	}
}

// isolate runs the tests once more, in namespaces of their own.
func isolate(m *testing.M) int {
	runtime.LockOSThread() // Pdeathsig counts from the thread that starts the child
	cmd := exec.Command(executable(), os.Args[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"="+roleRig)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	err := cmd.Start()
	if err != nil {
		// Without a namespace the tests run here, and say in their own words that
		// they cannot.
		fmt.Fprintf(os.Stderr, "powercut: no mount namespace of its own: %v\n", err)
		return m.Run()
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "powercut: %v\n", err)
		return 1
	}
	return 0
}

func executable() string {
	name, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return name
}

// workshop gives a directory in memory for mount points and images, or why there
// is none. Judging syncs much, and that need not reach a disk.
func workshop(dir string) error {
	if os.Getenv(roleEnv) != roleRig {
		return errors.New("the kernel gives no mount namespace (unshare)")
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("powercut", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	return nil
}

// newWorkshop makes the directory, and skips, or fails where that is asked for,
// when no file system can be mounted.
func newWorkshop(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := workshop(dir)
	if err == nil {
		t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
		err = tryFuse(t, filepath.Join(dir, "try"))
	}
	if err != nil && *requiredFlag {
		t.Fatalf("no power cut can be tried here: %v", err)
	}
	if err != nil {
		t.Skipf("SKIPPED: NO POWER CUT WAS TRIED: %v (needs /dev/fuse, and root or unprivileged user namespaces)", err)
	}
	return dir
}

func tryFuse(t *testing.T, dir string) error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	f.Close()
	d, err := startDisk(dir)
	if err != nil {
		return err
	}
	t.Cleanup(d.stop)
	if err := d.format(); err != nil {
		return err
	}
	return d.unmount()
}
