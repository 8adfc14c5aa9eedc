package symbols

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags never block (a path may lead to a FIFO by now) and never make a
// terminal ours.
const openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

func openPlain(path string) (*os.File, error) {
	fd, err := unix.Open(path, openFlags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openInRoot opens a path as a process sees it. Symbolic links are resolved
// inside of the process's root, so that a container cannot point us at a file
// of the host.
func openInRoot(pid int32, path string) (*os.File, error) {
	root := fmt.Sprintf("/proc/%d/root", pid)
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags: openFlags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ENOSYS) { // before 5.6
		return openPlain(root + path)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "openat2", Path: root + path, Err: err}
	}
	return os.NewFile(uintptr(fd), root+path), nil
}

// identity is the device, as Mapping holds it, and the inode of a file.
func identity(fi fs.FileInfo) (dev, inode uint64) {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return Dev(unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))), st.Ino
	}
	return 0, 0
}
