//go:build amd64 || arm64

package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func mountPrimitives() []primitive {
	var all []primitive
	for _, fs := range []string{"tmpfs", "proc", "sysfs", "devpts", "mqueue", "cgroup2"} {
		all = append(all, primitive{name: "mount-" + fs, summary: "mount a " + fs, needs: func() error { return hasFilesystem(fs) },
			open: func(w *bench) (*steps, error) {
				return mountSteps(w, func(at string) error { return unix.Mount(fs, at, fs, 0, "") })
			}})
	}
	return append(all,
		primitive{name: "mount-bind", summary: "bind-mount a folder", open: func(w *bench) (*steps, error) {
			return mountSteps(w, func(at string) error { return unix.Mount(mountSource, at, "", unix.MS_BIND, "") })
		}},
		primitive{name: "mount-overlay", summary: "mount an overlay of two folders", needs: func() error { return hasFilesystem("overlay") },
			open: func(w *bench) (*steps, error) { return overlaySteps(w, false) }},
		primitive{name: "umount-overlay", summary: "unmount an overlay", needs: func() error { return hasFilesystem("overlay") },
			open: func(w *bench) (*steps, error) { return overlaySteps(w, true) }},
		primitive{name: "umount-tmpfs", summary: "unmount a tmpfs", open: func(w *bench) (*steps, error) {
			at, err := w.mkdir()
			return &steps{before: func() error { return unix.Mount("tmpfs", at, "tmpfs", 0, "") },
				do: func() error { return unix.Unmount(at, 0) }}, err
		}},
		primitive{name: "fsmount-tmpfs", summary: "mount a tmpfs with fsopen, fsconfig, fsmount and move_mount", needs: hasNewMounts,
			open: func(w *bench) (*steps, error) { return mountSteps(w, newMount) }},
		primitive{name: "pivot-root", summary: "a child in a new mount namespace makes a folder its root: bind mount, pivot_root, umount, exit",
			open: pivotSteps},
	)
}

func hasFilesystem(name string) error {
	b, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err
	}
	for l := range bytes.Lines(b) {
		if f := bytes.Fields(l); len(f) > 0 && string(f[len(f)-1]) == name {
			return nil
		}
	}
	return fmt.Errorf("no file system %s in /proc/filesystems", name)
}

// hasNewMounts tries the mount calls of Linux 5.2 out.
func hasNewMounts() error {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	return unix.Close(fd)
}

// mountSteps mounts something at a folder.
func mountSteps(w *bench, mount func(at string) error) (*steps, error) {
	at, err := w.mkdir()
	if err != nil {
		return nil, err
	}
	return &steps{do: func() error { return mount(at) }, after: func() error { return unmounted(unix.Unmount(at, 0)) }}, nil
}

// unmounted takes what is not mounted for unmounted.
func unmounted(err error) error {
	if err == unix.EINVAL {
		return nil
	}
	return err
}

// newMount mounts a tmpfs with the calls of Linux 5.2.
func newMount(at string) error {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("fsconfig: %w", err)
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	defer unix.Close(m)
	return unix.MoveMount(m, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// overlaySteps mounts an overlay with an upper layer on a tmpfs, or unmounts
// it. On a disk the unmount would write the disk's file system back (ovl_sync_fs),
// which is a matter of what else is written there.
func overlaySteps(w *bench, unmount bool) (*steps, error) {
	at, err := w.mkdir()
	if err != nil {
		return nil, err
	}
	layers, err := w.mkdir()
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", layers, "tmpfs", 0, ""); err != nil {
		return nil, fmt.Errorf("mount tmpfs: %w", err)
	}
	for _, d := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(layers, d), 0o755); err != nil {
			return nil, errors.Join(err, unix.Unmount(layers, 0))
		}
	}
	options := "lowerdir=" + layers + "/lower,upperdir=" + layers + "/upper,workdir=" + layers + "/work"
	s := &steps{
		do:    func() error { return unix.Mount("overlay", at, "overlay", 0, options) },
		after: func() error { return unmounted(unix.Unmount(at, 0)) },
		close: func() error { return unix.Unmount(layers, unix.MNT_DETACH) },
	}
	if unmount {
		s.before, s.do = s.do, s.after
		s.after = nil
	}
	return s, nil
}

func pivotSteps(w *bench) (*steps, error) {
	root, err := w.mkdir()
	if err != nil {
		return nil, err
	}
	p := &childProgram{}
	p.add("make mounts private", unix.SYS_MOUNT, "none", "/", 0, uintptr(unix.MS_REC|unix.MS_PRIVATE), 0)
	p.add("bind the new root", unix.SYS_MOUNT, root, root, 0, unix.MS_BIND, 0)
	p.pivot(root)
	p.add("exit", unix.SYS_EXIT_GROUP, 0)
	return &steps{do: func() error { return forkAndWait(p, unix.CLONE_NEWNS, -1) }}, nil
}
