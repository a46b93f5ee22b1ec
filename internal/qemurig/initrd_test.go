package qemurig

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// initrd makes the board's RAM disk: oxyd and the guest as this tree builds them,
// and the kernel's modules.
func (m machine) initrd(t *testing.T, kernel string) string {
	t.Helper()
	dir := t.TempDir()
	var disk archive
	for _, d := range []string{"bin", "modules", "dev", "proc", "sys", "data", "tmp"} {
		disk.add(d, 0o40755, nil)
	}
	for _, f := range []struct{ name, file string }{
		{"init", m.build(t, dir, "./sensors/internal/guest")},
		{"bin/oxyd", m.build(t, dir, ".")},
		{"modules/fuse.ko", filepath.Join(kernel, "fuse.ko")},
		{"modules/cuse.ko", filepath.Join(kernel, "cuse.ko")},
	} {
		content, err := os.ReadFile(f.file)
		if err != nil {
			t.Fatal(err)
		}
		disk.add(f.name, 0o100755, content)
	}
	file := filepath.Join(dir, "initrd")
	if err := os.WriteFile(file, disk.end(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// build builds a program for the board.
func (m machine) build(t *testing.T, dir, pkg string) string {
	t.Helper()
	out := filepath.Join(dir, filepath.Base(pkg)+".bin")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = "../.."
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux"), m.goarch...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	return out
}

// archive is an initial RAM disk in the kernel's format: cpio "newc" (Linux
// Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	bytes.Buffer
	files int
}

// add adds a file or a directory. Each part begins at a multiple of four.
func (a *archive) add(name string, mode int, content []byte) {
	a.files++
	fmt.Fprintf(a, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.files, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0)
	a.WriteString(name + "\x00")
	a.pad()
	a.Write(content)
	a.pad()
}

func (a *archive) pad() {
	for a.Len()%4 != 0 {
		a.WriteByte(0)
	}
}

// end gives the whole archive.
func (a *archive) end() []byte {
	a.add("TRAILER!!!", 0, nil)
	return a.Bytes()
}
