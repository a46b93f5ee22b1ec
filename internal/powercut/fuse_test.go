//go:build !386 && !arm

package powercut

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// directory is the root of the mounted disk, node one of its files. They only
// translate.
type directory struct {
	fs.Inode
	d *disk
}

type node struct {
	fs.Inode
	d *disk
	f *file
}

// The kernel keeps no attribute and no name: it asks each time. It keeps pages,
// which are dropped at each open; so a second client reads what the first one
// wrote, synced or not.
func mountDisk(dir string, d *disk) (mounted, error) {
	var ask time.Duration
	m, err := fs.Mount(dir, &directory{d: d}, &fs.Options{
		AttrTimeout: &ask, EntryTimeout: &ask,
		MountOptions: fuse.MountOptions{
			DirectMountStrict: true, // needs no fusermount
			FsName:            "powercut", Name: "powercut",
			MaxWrite: 1 << 20, DisableXAttrs: true,
		},
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (r *directory) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = syscall.S_IFDIR | 0o700
	return 0
}

func (r *directory) inode(ctx context.Context, f *file, out *fuse.EntryOut) *fs.Inode {
	n := &node{d: r.d, f: f}
	n.attributes(&out.Attr)
	return r.NewInode(ctx, n, fs.StableAttr{Mode: syscall.S_IFREG, Ino: f.ino})
}

func (r *directory) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	f := r.d.lookup(name)
	if f == nil {
		return nil, syscall.ENOENT
	}
	return r.inode(ctx, f, out), 0
}

func (r *directory) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	var entries []fuse.DirEntry
	for _, name := range r.d.list() {
		entries = append(entries, fuse.DirEntry{Name: name, Mode: syscall.S_IFREG})
	}
	return fs.NewListDirStream(entries), 0
}

func (r *directory) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f, errno := r.d.create(name)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return r.inode(ctx, f, out), nil, 0, 0
}

func (r *directory) Rename(_ context.Context, name string, _ fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	if flags&^unix.RENAME_NOREPLACE != 0 {
		return syscall.EINVAL
	}
	return r.d.rename(name, newName, flags != 0)
}

func (r *directory) Unlink(_ context.Context, name string) syscall.Errno { return r.d.unlink(name) }

func (r *directory) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return r.d.syncDir() }

func (n *node) attributes(a *fuse.Attr) {
	size := uint64(n.d.size(n.f))
	a.Mode, a.Size, a.Blocks, a.Blksize, a.Nlink, a.Ino = syscall.S_IFREG|0o600, size, (size+sector-1)/sector, 4096, 1, n.f.ino
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.attributes(&out.Attr)
	return 0
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if errno := n.d.edit(n.f, edit{off: int64(size)}); errno != 0 {
			return errno
		}
	}
	n.attributes(&out.Attr)
	return 0
}

func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) { return nil, 0, 0 }

func (n *node) Read(_ context.Context, _ fs.FileHandle, dst []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return fuse.ReadResultData(dst[:n.d.read(n.f, dst, off)]), 0
}

func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if len(data) == 0 {
		return 0, 0
	}
	own := append([]byte(nil), data...) // the request's memory is used again
	return uint32(len(data)), n.d.edit(n.f, edit{off, own})
}

func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return n.d.sync(n.f) }
