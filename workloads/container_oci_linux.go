//go:build linux

package workloads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func findOCI(ctx context.Context, rt ociRuntime) Found {
	path, err := exec.LookPath(rt.name)
	if err != nil {
		return notOnPath(rt.name, rt.install)
	}
	v, err := askOCI(ctx, rt, path)
	if err != nil {
		return Found{Where: path, Why: err.Error(), Hint: path + " --version"}
	}
	if uid := os.Geteuid(); uid != 0 {
		return Found{State: NotAllowed, Where: path, Version: v.String(), Hint: "sudo -E trace run --workload container-start --target " + rt.name,
			Why: fmt.Sprintf("starting containers with %s needs root, this is uid %d", rt.name, uid)}
	}
	f := Found{OK: true, Where: path, Version: v.String()}
	if rt.unifiedApart && hybridCgroups() {
		f.Note = rt.name + " refuses cgroup v1 and v2 side by side: it is run in a mount namespace without " + unifiedMount +
			" (by hand: unshare -m sh -c 'umount " + unifiedMount + " && " + rt.name + " run ...')"
	}
	return f
}

// ociVersion is what `runc --version` says.
type ociVersion struct {
	runtime string // runc, crun ...
	name    string // the release
	seccomp bool   // it can filter system calls
}

func (v ociVersion) String() string {
	if !v.seccomp {
		return v.runtime + " " + v.name + ", no seccomp"
	}
	return v.runtime + " " + v.name
}

func askOCI(ctx context.Context, rt ociRuntime, path string) (ociVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return ociVersion{}, fmt.Errorf("%s --version: %w", path, err)
	}
	return parseOCIVersion(rt.name, string(out))
}

// parseOCIVersion reads "runc version 1.1.5" with "libseccomp: 2.5.4",
// "crun version 1.8.1" with "+SECCOMP", and "youki version 0.5.0".
func parseOCIVersion(runtime, text string) (ociVersion, error) {
	v := ociVersion{runtime: runtime}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if s, ok := strings.CutPrefix(line, runtime+" version "); ok && v.name == "" {
			v.name = s
		}
		if s, ok := strings.CutPrefix(line, "libseccomp: "); ok && s != "" || strings.Contains(line, "+SECCOMP") {
			v.seccomp = true
		}
	}
	if v.name == "" {
		return v, fmt.Errorf("not the version of %s: %q", runtime, text)
	}
	return v, nil
}

// runcError takes the message of an error out of a runtime's log in JSON; ""
// when there is no error in it.
func runcError(log string) string {
	entries := json.NewDecoder(strings.NewReader(log))
	for {
		var e struct{ Level, Msg string }
		if entries.Decode(&e) != nil {
			return ""
		}
		if e.Level == "error" || e.Level == "fatal" {
			return e.Msg
		}
	}
}

// unifiedMount is where cgroup v2 is mounted beside the hierarchies of v1.
const unifiedMount = cgroupRoot + "/unified"

// hybridCgroups says that the host has cgroup v1 and v2 mounted side by side.
func hybridCgroups() bool {
	var root, unified unix.Statfs_t
	return unix.Statfs(cgroupRoot, &root) == nil && root.Type == unix.TMPFS_MAGIC &&
		unix.Statfs(unifiedMount, &unified) == nil && unified.Type == unix.CGROUP2_SUPER_MAGIC
}

// mountsApart is a mount namespace that lacks one of the host's mounts. It
// lasts until it is closed or this process ends.
type mountsApart struct {
	inside, outside *os.File // the namespaces
}

// newMountsApart makes the namespace. Unmounts of the host reach it, so that it
// holds nothing that others have let go of.
func newMountsApart(without string) (*mountsApart, error) {
	type made struct {
		m   *mountsApart
		err error
	}
	done := make(chan made)
	go func() {
		// Never unlocked: the thread, whose namespace it is, ends with this.
		runtime.LockOSThread()
		m, err := makeMountsApart(without)
		done <- made{m, err}
	}()
	d := <-done
	return d.m, d.err
}

func makeMountsApart(without string) (*mountsApart, error) {
	outside, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return nil, err
	}
	m := &mountsApart{outside: outside}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, errors.Join(fmt.Errorf("new mount namespace: %w", err), m.close())
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("make mounts follow the host's: %w", err), m.close())
	}
	if err := unix.Unmount(without, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("unmount %s for ourselves: %w", without, err), m.close())
	}
	if m.inside, err = os.Open("/proc/thread-self/ns/mnt"); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *mountsApart) close() error {
	if m == nil {
		return nil
	}
	var errs []error
	for _, f := range []*os.File{m.inside, m.outside} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// start is os.StartProcess with the child in the namespace: two setns, some
// microseconds. The calling thread goes in and comes back, for which it gets a
// working directory of its own (CLONE_FS), and is never unlocked if it cannot
// come back: then it ends with its goroutine.
func (m *mountsApart) start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("leave the shared working directory: %w", err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	if err := unix.Setns(int(m.inside.Fd()), unix.CLONE_NEWNS); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("enter mount namespace: %w", err)
	}
	p, err := os.StartProcess(path, argv, attr)
	if back := unix.Setns(int(m.outside.Fd()), unix.CLONE_NEWNS); back != nil {
		return p, errors.Join(err, fmt.Errorf("leave mount namespace: %w", back))
	}
	if back := unix.Chdir(cwd); back != nil {
		return p, errors.Join(err, fmt.Errorf("return to %s: %w", filepath.Clean(cwd), back))
	}
	runtime.UnlockOSThread()
	return p, err
}
