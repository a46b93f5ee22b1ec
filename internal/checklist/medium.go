package checklist

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// medium is what the stores lie on: a synced write is worth what this makes of it.
type medium struct {
	kind   string // of the file system, such as ext4
	mount  string // where it is mounted
	doubts []string
}

// mediumOf looks at the file system of a directory, which need not exist yet.
func mediumOf(dir string) medium {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return medium{kind: "unknown", doubts: []string{fmt.Sprintf("the file system of %s cannot be told: %v", dir, err)}}
	}
	path, err := filepath.Abs(existing(dir))
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	m, found := mountOf(string(table), path)
	if err != nil || !found {
		return medium{kind: "unknown", doubts: []string{"the file system of " + dir + " cannot be told"}}
	}
	var u unix.Utsname
	_ = unix.Uname(&u) // an empty release is no affected one
	return judge(m, unix.ByteSliceToString(u.Release[:]), extended(m.source))
}

// mounted is one line of mountinfo (proc_pid_mountinfo(5)).
type mounted struct {
	point, kind, source string
	options             []string // of the mount and of the super block
}

// mountOf finds the mount that a path lies in: the longest that leads to it, of
// several at one point the last, which hides the others.
func mountOf(table, path string) (best mounted, found bool) {
	for line := range strings.Lines(table) {
		head, tail, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(head), strings.Fields(tail)
		if !ok || len(left) < 6 || len(right) < 3 {
			continue
		}
		point := unescape(left[4])
		if path != point && !strings.HasPrefix(path, strings.TrimSuffix(point, "/")+"/") || found && len(point) < len(best.point) {
			continue
		}
		best = mounted{point: point, kind: right[0], source: unescape(right[1]),
			options: slices.Concat(strings.Split(left[5], ","), strings.Split(right[2], ","))}
		found = true
	}
	return best, found
}

// unescape reads the octal escapes of mountinfo: space, tab, line end, backslash.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}

// extended gives what the kernel shows of an ext4 file system's running options and
// fast commits; "" where it shows nothing.
func extended(source string) string {
	dir := filepath.Join("/proc/fs/ext4", filepath.Base(source))
	options, _ := os.ReadFile(filepath.Join(dir, "options")) // absent: of another kind
	commits, _ := os.ReadFile(filepath.Join(dir, "fc_info")) // absent before 5.10
	return string(options) + string(commits)
}

// judge tells what speaks against the medium.
func judge(m mounted, release, ext4 string) medium {
	out := medium{kind: m.kind, mount: m.point}
	doubt := func(format string, args ...any) { out.doubts = append(out.doubts, fmt.Sprintf(format, args...)) }
	switch m.kind {
	case "tmpfs", "ramfs":
		doubt("%s is %s: memory, which is empty after a power cut, whatever was synced", m.point, m.kind)
	case "nfs", "nfs4", "cifs", "smb3", "9p", "ceph":
		doubt("%s is %s: what a sync means there is the server's to say", m.point, m.kind)
	case "vfat", "exfat", "msdos":
		doubt("%s is %s, which has no journal: a power cut may take the file's place in its directory", m.point, m.kind)
	}
	for _, o := range m.options {
		if o == "nobarrier" || o == "barrier=0" {
			doubt("%s is mounted with %s: the disk may lose what was synced", m.point, o)
		}
	}
	if m.kind == "ext4" && fastCommits(ext4) && losesFastCommits(release) {
		doubt("%s uses ext4's fast_commit on kernel %s, where a sync can succeed without the data (fixed in 5.10.94, 5.15.27, 5.17): tune2fs -O ^fast_commit", m.point, release)
	}
	return out
}

// fastCommits reports whether the kernel says that fast commits are on or were made.
func fastCommits(ext4 string) bool {
	for line := range strings.Lines(ext4) {
		line = strings.TrimSpace(line)
		if line == "fast_commit" {
			return true
		}
		if n, ok := strings.CutSuffix(line, " commits"); ok && n != "0" {
			return true
		}
	}
	return false
}

// losesFastCommits reports whether a kernel of the release can lose synced data of
// ext4 with fast_commit (etcd-io/bbolt#562).
func losesFastCommits(release string) bool {
	var v [3]int
	for i, part := range strings.SplitN(release, ".", 3) {
		digits := part
		if end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = part[:end]
		}
		v[i], _ = strconv.Atoi(digits) // none is 0
	}
	switch {
	case v[0] != 5 || v[1] < 10 || v[1] > 16:
		return false
	case v[1] == 10:
		return v[2] < 94
	case v[1] == 15:
		return v[2] < 27
	}
	return true
}
