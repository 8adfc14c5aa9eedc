//go:build amd64 || arm64

package workloads

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files that the init inherits besides the standard ones.
const (
	initGoFD    = 3 // one byte to read: the network is ready
	initErrorFD = 4 // what went wrong, in words
)

// engineInit is process 1 of a container: it sets the namespaces up from the
// inside and becomes the container's program. It returns only when that fails.
func engineInit(dir, id string) int {
	runtime.LockOSThread() // capabilities and seccomp are the thread's, and execve keeps them
	unix.CloseOnExec(initGoFD)
	unix.CloseOnExec(initErrorFD)
	if err := becomeContainer(dir, id); err != nil {
		report := os.NewFile(initErrorFD, "error pipe")
		fmt.Fprint(report, err) // to an engine that is gone there is nothing to say
		return engineFailed
	}
	return 0
}

func becomeContainer(dir, id string) error {
	spec, err := readSpec(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, containersDir, id)
	steps := []func() error{
		func() error { return mountRoot(spec.Rootfs, path) },
		func() error { return mountSystem(filepath.Join(path, "merged")) },
		func() error { return pivot(filepath.Join(path, "merged")) },
		func() error { return setHostname(id) },
		func() error { return loopbackUp(spec.Network) },
		waitForGo,
		dropPrivileges,
		filterSyscalls,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := syscall.Exec(spec.Args[0], spec.Args, spec.Env); err != nil {
		return fmt.Errorf("exec %s: %w", spec.Args[0], err)
	}
	return nil
}

// mountRoot mounts the container's root file system: an overlay whose upper
// layer is in the container's folder. Where that folder's file system cannot
// be an upper layer (it is an overlay itself, as inside of another container),
// the upper layer is a tmpfs.
func mountRoot(lower, path string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	err := mountOverlay(lower, path, path)
	if err == nil {
		return nil
	}
	scratch := filepath.Join(path, "work")
	if e := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700"); e != nil {
		return errors.Join(err, fmt.Errorf("mount tmpfs: %w", e))
	}
	for _, d := range []string{"upper", "work"} {
		if e := os.Mkdir(filepath.Join(scratch, d), 0o755); e != nil {
			return errors.Join(err, e)
		}
	}
	return mountOverlay(lower, scratch, path)
}

func mountOverlay(lower, layers, path string) error {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, layers, layers)
	if err := unix.Mount("overlay", filepath.Join(path, "merged"), "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	return nil
}

// systemMount is a file system of the kernel inside of a container.
type systemMount struct {
	target, fstype string
	flags          uintptr
	options        string
}

// systemMounts are the ones that the OCI runtime specification asks of every
// Linux container; folders below /dev are made on the fly.
func systemMounts() []systemMount {
	const strict = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return []systemMount{
		{"proc", "proc", strict, ""},
		{"sys", "sysfs", strict | unix.MS_RDONLY, ""},
		{"dev", "tmpfs", unix.MS_NOSUID | unix.MS_STRICTATIME, "mode=755,size=65536k"},
		{"dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"},
		{"dev/shm", "tmpfs", strict, "mode=1777,size=65536k"},
	}
}

func mountSystem(root string) error {
	unix.Umask(0)
	for _, m := range systemMounts() {
		target := filepath.Join(root, m.target)
		if err := unix.Mkdir(target, 0o755); err != nil && err != unix.EEXIST {
			return &os.PathError{Op: "mkdir", Path: target, Err: err}
		}
		if err := unix.Mount(m.fstype, target, m.fstype, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s on /%s: %w", m.fstype, m.target, err)
		}
	}
	return makeDevices(filepath.Join(root, "dev"))
}

func makeDevices(dev string) error {
	for _, n := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		at := filepath.Join(dev, n.name)
		if err := unix.Mknod(at, unix.S_IFCHR|0o666, int(unix.Mkdev(n.major, n.minor))); err != nil {
			return &os.PathError{Op: "mknod", Path: at, Err: err}
		}
	}
	for _, l := range [][2]string{{"pts/ptmx", "ptmx"}, {"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"},
		{"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}} {
		if err := os.Symlink(l[0], filepath.Join(dev, l[1])); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes root the root and lets go of the old one. Both may be the same
// folder (pivot_root(2), "pivot_root . ."), so none is needed for the old.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return &os.PathError{Op: "chdir", Path: root, Err: err}
	}
	err := unix.PivotRoot(".", ".")
	switch {
	case err == nil:
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount the old root: %w", err)
		}
	case errors.Is(err, unix.EINVAL): // the old root is the initial ramfs, which nothing can be moved away from
		if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move root: %w", err)
		}
		if err := unix.Chroot("."); err != nil {
			return fmt.Errorf("chroot: %w", err)
		}
	default:
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir /: %w", err)
	}
	return nil
}

func setHostname(name string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set hostname: %w", err)
	}
	return nil
}

// loopbackUp brings lo up in a network namespace of our own.
func loopbackUp(network string) error {
	if network == "host" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// waitForGo waits until the engine has done its part outside.
func waitForGo() error {
	var b [1]byte
	for {
		n, err := unix.Read(initGoFD, b[:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait for the engine: %w", err)
		case n == 0:
			return fmt.Errorf("wait for the engine: %w", io.ErrUnexpectedEOF)
		default:
			return nil
		}
	}
}
