//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"
)

// resultsPort is the serial port that results go to; the kernel has the first.
const resultsPort = "/dev/ttyS1"

// runInit is the first process of the guest: it makes a root that
// can be pivoted away from, loads the modules, runs the jobs and turns the machine
// off.
func runInit() {
	err := prepareGuest()
	port, perr := os.OpenFile(resultsPort, os.O_WRONLY, 0)
	if perr != nil {
		fmt.Println("vmtest: init:", errors.Join(err, perr))
		powerOff()
	}
	fmt.Fprintln(port, markReady)
	if err == nil {
		err = runJobs(port)
	}
	if err != nil {
		fmt.Fprintln(port, "vmtest: init:", err)
	}
	fmt.Fprintln(port, markDone)
	_ = port.Sync() // the drain below is what counts
	_ = unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1)
	powerOff()
}

func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // it does not return when it works
	select {}
}

// guestMounts are what programs expect to find.
var guestMounts = []struct {
	kind, at string
	optional bool
}{
	{"devtmpfs", "/dev", false},
	{"proc", "/proc", false},
	{"sysfs", "/sys", false},
	{"tracefs", "/sys/kernel/tracing", true},
	{"bpf", "/sys/fs/bpf", true},
	{"cgroup2", "/sys/fs/cgroup", false},
	{"tmpfs", "/tmp", false},
	{"tmpfs", "/run", false},
	{"tmpfs", "/var", false},
	{"devpts", "/dev/pts", true},
	{"tmpfs", "/dev/shm", true},
}

// prepareGuest moves everything from the initial root, which nothing can
// be pivoted away from, to a tmpfs.
func prepareGuest() error {
	if err := os.MkdirAll("/newroot", 0o755); err != nil {
		return err
	}
	if err := unix.Mount("root", "/newroot", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "newroot" {
			continue
		}
		if err := moveTree("/"+e.Name(), "/newroot/"+e.Name()); err != nil {
			return err
		}
	}
	if err := os.Chdir("/newroot"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for _, m := range guestMounts {
		err := os.MkdirAll(m.at, 0o755)
		if err == nil {
			err = unix.Mount(m.kind, m.at, m.kind, 0, "")
		}
		if err != nil && !m.optional {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := os.Chmod("/tmp", 0o1777); err != nil {
		return err
	}
	if out, err := exec.Command("/bin/busybox", "--install", "-s", "/bin").CombinedOutput(); err != nil {
		return fmt.Errorf("install busybox: %w\n%s", err, out)
	}
	if err := loadModules(); err != nil {
		return err
	}
	return loopbackUp()
}

// moveTree copies a tree of the initial file system and frees it there.
func moveTree(from, to string) error {
	info, err := os.Lstat(from)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		if err := os.MkdirAll(to, info.Mode().Perm()); err != nil {
			return err
		}
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := moveTree(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
		return nil
	case !info.Mode().IsRegular(): // /dev/console
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Close(), os.Remove(from))
}

func loadModules() error {
	files, err := filepath.Glob("/" + modulesFolder + "/*.ko")
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := unix.InitModule(b, ""); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

// loopbackUp does what ip link set lo up does.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// runJobs runs every job with its output on the port.
func runJobs(port *os.File) error {
	b, err := os.ReadFile("/" + jobsFile)
	if err != nil {
		return err
	}
	var list []guestJob
	if err := json.Unmarshal(b, &list); err != nil {
		return fmt.Errorf("%s: %w", jobsFile, err)
	}
	for _, j := range list {
		fmt.Fprintf(port, "%s %s\n", markBegin, j.Name)
		fmt.Fprintf(port, "%s %s %d\n", markEnd, j.Name, runJob(port, j))
	}
	return nil
}

// guestEnv is what jobs see: nothing may be skipped that this kernel can do.
var guestEnv = []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp", "LC_ALL=C.UTF-8", "TRACE_TEST_REQUIRE=bpf,root", "TRACE_TEST_BINARY=/bin/trace"}

func runJob(port *os.File, j guestJob) int {
	cmd := exec.Command(j.Path, j.Args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = j.Dir, guestEnv, port, port
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(port, "vmtest:", err)
		return 127
	}
	return cmd.ProcessState.ExitCode()
}
