package checklist

import (
	"reflect"
	"slices"
	"testing"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

const mountTable = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 27 0:30 / /var rw,relatime shared:3 - btrfs /dev/vdb rw
31 30 0:31 / /var/lib rw,noexec - ext4 /dev/vdc rw,nobarrier
32 31 0:32 / /var/lib/my\040oxyd rw - tmpfs none rw
33 27 0:33 / /srv rw - ext4 /dev/old rw
34 27 0:34 / /srv rw - xfs /dev/new rw
a line that is none
`

func TestMountOf(t *testing.T) {
	for path, want := range map[string]string{"/home/x": "ext4 /", "/var": "btrfs /var", "/variable": "ext4 /", "/var/lib/oxyd": "ext4 /var/lib",
		"/var/lib/my oxyd/x": "tmpfs /var/lib/my oxyd", "/srv/x": "xfs /srv"} {
		m, ok := mountOf(mountTable, path)
		if got := m.kind + " " + m.point; !ok || got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if m, _ := mountOf(mountTable, "/var/lib/oxyd"); !slices.Contains(m.options, "nobarrier") || !slices.Contains(m.options, "noexec") {
		t.Errorf("options %v", m.options)
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what    string
		m       mounted
		release string
		ext4    string
		doubts  int
	}{
		{"ext4", mounted{kind: "ext4", options: []string{"rw", "barrier=1"}}, "6.1.0-rpi7", "rw\nbarrier\nfc stats:\n0 commits\n", 0},
		{"tmpfs", mounted{kind: "tmpfs"}, "6.1.0", "", 1},
		{"a share", mounted{kind: "nfs4"}, "6.1.0", "", 1},
		{"no journal", mounted{kind: "vfat"}, "6.1.0", "", 1},
		{"no barriers", mounted{kind: "ext4", options: []string{"nobarrier"}}, "6.1.0", "", 1},
		{"fast commit, mended", mounted{kind: "ext4"}, "5.10.94-v7l+", "fast_commit\n", 0},
		{"fast commit, not mended", mounted{kind: "ext4"}, "5.10.93-v7l+", "fast_commit\n", 1},
		{"fast commits made", mounted{kind: "ext4"}, "5.15.26", "fc stats:\n12 commits\n", 1},
		{"fast commits made, mended", mounted{kind: "ext4"}, "5.15.27", "fc stats:\n12 commits\n", 0},
		{"fast commit between", mounted{kind: "ext4"}, "5.13.19", "fast_commit\n", 1},
		{"fast commit before", mounted{kind: "ext4"}, "5.4.0", "fast_commit\n", 0},
		{"fast commit after", mounted{kind: "ext4"}, "5.17.0", "fast_commit\n", 0},
		{"unknown kernel", mounted{kind: "ext4"}, "", "fast_commit\n", 0},
	} {
		if got := judge(c.m, c.release, c.ext4); len(got.doubts) != c.doubts {
			t.Errorf("%s: doubts %q, want %d", c.what, got.doubts, c.doubts)
		}
	}
}

// The directory in which this test runs is somewhere.
func TestMediumOfThisMachine(t *testing.T) {
	if m := mediumOf(t.TempDir() + "/not/yet"); m.kind == "unknown" || m.mount == "" {
		t.Errorf("%+v", m)
	}
}
