//go:build amd64 || arm64

package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// cgroupMount is a mounted cgroup hierarchy.
type cgroupMount struct {
	dir     string
	unified bool // cgroup v2
}

// cgroupMounts lists the hierarchies, v2 first: a system may have both.
func cgroupMounts() ([]cgroupMount, error) {
	infos, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup2", "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("cgroup mounts: %w", err)
	}
	var v2, v1 []cgroupMount
	for _, m := range infos {
		if m.FSType == "cgroup2" {
			v2 = append(v2, cgroupMount{dir: m.Mountpoint, unified: true})
		} else {
			v1 = append(v1, cgroupMount{dir: m.Mountpoint})
		}
	}
	return append(v2, v1...), nil
}

// cgroupParents makes a folder called name in the hierarchies that containers
// will have their cgroups in: the one of v2 where that can be written to, else
// every one of v1. It gives the folders.
func cgroupParents(name string) (dirs []string, unified bool, err error) {
	mounts, err := cgroupMounts()
	if err != nil {
		return nil, false, err
	}
	var errs []error
	for _, m := range mounts {
		if !m.unified && unified {
			break
		}
		dir := filepath.Join(m.dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := inheritCpuset(dir); err != nil {
			errs = append(errs, err, os.Remove(dir))
			continue
		}
		dirs = append(dirs, dir)
		if m.unified {
			// Where the hierarchy's root passes no controllers on there are
			// none to enable, and the containers have no limits.
			for _, c := range []string{"+pids", "+memory"} {
				_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(c), 0)
			}
			return dirs, true, nil
		}
	}
	if len(dirs) == 0 {
		return nil, false, fmt.Errorf("no cgroup hierarchy can be written to (-p cgroup=off does without): %w", errors.Join(errs...))
	}
	return dirs, false, nil
}

// makeCgroup makes one container's cgroup with the limits that its controllers
// offer. They are far above what the probe needs: writing them is what counts.
func makeCgroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for _, l := range [][2]string{{"pids.max", "1024"}, {"memory.max", "1073741824"}, {"memory.limit_in_bytes", "1073741824"}} {
		err := os.WriteFile(filepath.Join(dir, l[0]), []byte(l[1]), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("limit cgroup: %w", err)
		}
	}
	return inheritCpuset(dir)
}

// inheritCpuset copies the CPUs and memory nodes of the parent, without which
// a new cpuset of v1 takes no process.
func inheritCpuset(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(bytes.TrimSpace(own)) > 0 {
			continue // no such controller, or already set
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err == nil {
			continue // v2, where empty means inherited
		}
		b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err != nil {
			return fmt.Errorf("cpuset of the parent: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0); err != nil {
			return fmt.Errorf("set cpuset: %w", err)
		}
	}
	return nil
}

func moveToCgroup(dir string, pid int) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("move process into cgroup: %w", err)
	}
	return nil
}

// cgroupPatience bounds the wait for a cgroup to become empty.
const cgroupPatience = 5 * time.Second

// removeCgroup removes a cgroup. Its last process may still be on its way out,
// for which it waits.
func removeCgroup(dir string) error {
	deadline := time.Now().Add(cgroupPatience)
	for {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		left := time.Until(deadline)
		if err != unix.EBUSY || left <= 0 {
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		awaitCgroupEvent(dir, left)
	}
}

// awaitCgroupEvent waits until the cgroup becomes populated or empty:
// cgroup.events of v2 says so by POLLPRI. On v1 nothing does.
func awaitCgroupEvent(dir string, most time.Duration) {
	const v1Pause = time.Millisecond
	fd, err := unix.Open(filepath.Join(dir, "cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		time.Sleep(min(v1Pause, most))
		return
	}
	defer unix.Close(fd)
	var b [256]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return
	}
	if bytes.Contains(b[:n], []byte("populated 0")) {
		// Empty, and yet busy: the kernel is letting go of the last process.
		most = min(v1Pause, most)
	}
	// A poll cut short is no harm: the caller looks again.
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, max(1, int(most.Milliseconds())))
}

// destroyCgroup ends what runs in a cgroup and below, and removes it all.
func destroyCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	killInCgroup(dir)
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, destroyCgroup(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(append(errs, removeCgroup(dir))...)
}

// killInCgroup ends all processes of a cgroup of ours: by cgroup.kill (v2, Linux
// 5.14), else one by one. What forks meanwhile is met again by removeCgroup's
// caller at the next start.
func killInCgroup(dir string) {
	thawCgroup(dir)
	if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, f := range bytes.Fields(b) {
		if pid, err := strconv.Atoi(string(f)); err == nil && pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL) // gone is what we want
		}
	}
}
