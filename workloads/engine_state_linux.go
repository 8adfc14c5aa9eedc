//go:build amd64 || arm64

package workloads

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// statePrefix begins the name of every state folder and of its cgroups:
// stagetrace-<pid>-<starttime>-<host>-<boot>-<n>.
//
// A state folder is made before and removed after everything else that belongs
// to it, all of which has a name that follows from the folder's. So whatever a
// killed run left can be found from the folders alone, and belongs to nobody
// once the process in the name is gone.
const statePrefix = "stagetrace-"

// makeState makes a state folder for this process.
func makeState(root string) (string, error) {
	owner, err := currentOwner()
	if err != nil {
		return "", err
	}
	for n := 0; ; n++ {
		if err := os.MkdirAll(root, 0o700); err != nil {
			return "", err
		}
		dir := filepath.Join(root, fmt.Sprintf("%s%s-%d", statePrefix, owner.Key(), n))
		err := os.Mkdir(dir, 0o700)
		// Taken by another instance of ours, or the root was just removed by
		// another copy that had ended.
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return dir, err
	}
}

// sweepStates removes the state of runs that are no more, and leaves that of
// living ones alone.
func sweepStates(root string) error {
	me, err := currentOwner()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		key, ok := strings.CutPrefix(e.Name(), statePrefix)
		if !ok || !e.IsDir() {
			continue
		}
		owner, err := parseOwner(key)
		if err != nil || !owner.DeadTo(me) {
			continue
		}
		errs = append(errs, removeState(filepath.Join(root, e.Name())))
	}
	return errors.Join(errs...)
}

// removeState removes a state folder and everything that belongs to it:
// processes, cgroups, interfaces, mounts, files. What is gone already is no
// error: another copy may be doing the same.
func removeState(dir string) error {
	mounts, err := cgroupMounts()
	errs := []error{err}
	for _, m := range mounts {
		errs = append(errs, destroyCgroup(filepath.Join(m.dir, filepath.Base(dir))))
	}
	errs = append(errs, removeLinks(dir, ""), unmountBelow(dir))
	if err := errors.Join(errs...); err != nil {
		return err // the folder stays, so that the next start tries again
	}
	return os.RemoveAll(dir)
}

// removeEngineContainer removes what is left of one container; of one that its
// engine has removed there is nothing, which costs a few stats to see.
func removeEngineContainer(dir string, spec engineSpec, id string) error {
	if dir == "" {
		return nil
	}
	var errs []error
	for _, parent := range spec.Cgroups {
		errs = append(errs, destroyCgroup(filepath.Join(parent, id)))
	}
	if spec.Network == "bridge" && hasLink(vethName(dir, id)) {
		errs = append(errs, removeLinks(dir, id))
	}
	path := filepath.Join(dir, containersDir, id)
	if _, err := os.Lstat(path); err == nil {
		errs = append(errs, unmountBelow(path), os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

// unmountBelow takes mounts on and below a folder away. The engine makes its
// mounts in the container's namespace, where they end with it; this is for a
// namespace that was shared with ours.
func unmountBelow(dir string) error {
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	var errs []error
	for _, m := range slices.Backward(infos) { // the innermost was mounted last
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
			errs = append(errs, &os.PathError{Op: "unmount", Path: m.Mountpoint, Err: err})
		}
	}
	return errors.Join(errs...)
}
