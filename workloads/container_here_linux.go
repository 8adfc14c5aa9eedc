//go:build linux

package workloads

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// probeArch is the architecture of containers that are started here.
func probeArch() string { return runtime.GOARCH }

// crunRefuses says that crun cannot work with how cgroups are mounted here,
// and names a runtime that can, "" if there is none.
func crunRefuses() (refuses bool, other string) {
	if !hybridCgroups() {
		return false, ""
	}
	if _, err := exec.LookPath("runc"); err != nil {
		return true, ""
	}
	return true, "runc"
}

// mayRaiseLimits says that processes started from here may have limits above
// those of this one (setrlimit(2), CAP_SYS_RESOURCE).
func mayRaiseLimits() bool {
	ok, err := hasCapability(unix.CAP_SYS_RESOURCE)
	return err != nil || ok
}

// hasCapability says that this process has a capability in effect.
func hasCapability(bit uint) (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, err
	}
	return data[bit/32].Effective&(1<<(bit%32)) != 0, nil
}

// removeCgroupParent removes an empty cgroup of that name in whatever
// hierarchies it is.
func removeCgroupParent(name string) error {
	var errs []error
	for _, dir := range cgroupsNamed(name) {
		if err := unix.Rmdir(dir); err != nil && err != unix.ENOENT {
			errs = append(errs, fmt.Errorf("remove cgroup %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// writeExisting writes to a file and does not try to make it, which in a cgroup
// is forbidden and not merely in vain.
func writeExisting(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// thawCgroup lets frozen processes go on, so that a SIGKILL reaches them: that
// of cgroup v1's freezer waits for it.
func thawCgroup(dir string) {
	for _, f := range [][2]string{{"cgroup.freeze", "0"}, {"freezer.state", "THAWED"}} {
		_ = writeExisting(filepath.Join(dir, f[0]), f[1]) // most cgroups have neither
	}
}
