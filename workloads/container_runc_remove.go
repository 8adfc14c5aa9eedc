//go:build linux

package workloads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bundlePrefix = "stagetrace-runc-" // of bundle folders
	cgroupPrefix = "stagetrace-"      // of cgroups and containers
	cgroupRoot   = "/sys/fs/cgroup"
)

// unifiedCgroups says that the host has cgroup version 2 alone.
func unifiedCgroups() bool {
	var st unix.Statfs_t
	return unix.Statfs(cgroupRoot, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// removeRuncDir removes an instance's containers, cgroups, links, bundle and
// state folder, in the order in which they are found by.
func removeRuncDir(ctx context.Context, runc, dir string) error {
	root := filepath.Join(dir, "state")
	ids, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("runc state: %w", err)
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, removeRuncContainer(ctx, runc, root, id.Name()))
	}
	errs = append(errs, removeCgroups(ctx, runcPrefix(filepath.Base(dir))+"-*"), removeLinks(dir, ""))
	if err := errors.Join(errs...); err != nil {
		return err // the folder stays, so that it is found again
	}
	bundle, err := os.Readlink(filepath.Join(dir, "bundle"))
	if err == nil && strings.HasPrefix(filepath.Base(bundle), bundlePrefix) {
		if err := os.RemoveAll(bundle); err != nil {
			return fmt.Errorf("runc bundle: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("runc state: %w", err)
	}
	return nil
}

// removeRuncContainer deletes a container whatever its state. A runc that was
// killed early leaves a state folder that it cannot read later, or processes
// in a cgroup and no state: what runc does not remove is removed by hand.
func removeRuncContainer(ctx context.Context, runc, root, id string) error {
	out, err := exec.CommandContext(ctx, runc, "--root", root, "delete", "--force", id).CombinedOutput()
	if cerr := removeCgroups(ctx, id); cerr != nil {
		if err != nil {
			cerr = fmt.Errorf("%w (runc delete: %s)", cerr, bytes.TrimSpace(out))
		}
		return cerr
	}
	if err := os.RemoveAll(filepath.Join(root, id)); err != nil {
		return fmt.Errorf("runc state: %w", err)
	}
	return nil
}

// leftOf lists what exists of a container: its state, its cgroups and its link
// ("": it has none).
func leftOf(root, id, link string) []string {
	left := cgroupsNamed(id)
	if _, err := os.Lstat(filepath.Join(root, id)); err == nil {
		left = append(left, filepath.Join(root, id))
	}
	if link != "" && hasLink(link) {
		left = append(left, "link "+link)
	}
	return left
}

// cgroupsNamed lists the cgroups that match a name, in whatever hierarchies
// there are. A pattern that is none matches nothing.
func cgroupsNamed(pattern string) []string {
	var all []string
	for _, dir := range []string{cgroupRoot, filepath.Join(cgroupRoot, "*")} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err == nil {
			all = append(all, found...)
		}
	}
	return all
}

// removeCgroups kills what is in the cgroups that match a name and removes
// them. A cgroup can be removed once the last of its processes has been
// through its exit, hence the looking again.
func removeCgroups(ctx context.Context, pattern string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		for _, dir := range cgroupsNamed(pattern) {
			killCgroup(dir)
			if e := unix.Rmdir(dir); e != nil && e != unix.ENOENT {
				err = fmt.Errorf("remove cgroup %s: %w", dir, e)
			}
		}
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// killCgroup sends SIGKILL to the processes of a cgroup.
func killCgroup(dir string) {
	thawCgroup(dir)
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return // gone, which is what is wanted
	}
	for _, f := range bytes.Fields(b) {
		if pid, err := strconv.Atoi(string(f)); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have gone by itself
		}
	}
}
