//go:build linux

package workloads

import (
	"runtime"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// runcOptions are what differs from one bundle to the next.
type runcOptions struct {
	network    string       // none, bridge or host
	cgroup     string       // path below the hierarchy's root
	unifiedCgr bool         // the host has the unified hierarchy only
	seccomp    bool         // the runtime was built with it
	program    string       // in the rootfs
	mounts     int          // bind mounts beside those every container has
	hooks      *specs.Hooks // nil: none
}

// runcSpec is the configuration that `runc spec` writes, with our program, a
// cgroup of our naming and a seccomp filter, which every engine sets.
func runcSpec(o runcOptions) *specs.Spec {
	caps := []string{"CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"}
	s := &specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{
			Args: []string{o.program},
			Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: caps, Effective: caps, Permitted: caps,
			},
			Rlimits:         []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: 1024, Soft: 1024}},
			NoNewPrivileges: true,
		},
		Root:     &specs.Root{Path: "rootfs", Readonly: true},
		Hostname: "stagetrace",
		Mounts:   slices.Concat(runcMounts(), boundMounts(o.mounts)),
		Hooks:    o.hooks,
		Linux: &specs.Linux{
			CgroupsPath: o.cgroup,
			Resources:   &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
			Namespaces:  runcNamespaces(o),
			MaskedPaths: []string{
				"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/timer_stats", "/proc/sched_debug", "/sys/firmware", "/proc/scsi",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if o.seccomp {
		s.Linux.Seccomp = seccompProfile(runtime.GOARCH)
	}
	return s
}

// runcNamespaces are those of `runc spec`. A new network namespace holds
// nothing but its loopback device, which runc sets up, unless a hook adds to it.
func runcNamespaces(o runcOptions) []specs.LinuxNamespace {
	ns := []specs.LinuxNamespace{
		{Type: specs.PIDNamespace},
		{Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace},
		{Type: specs.MountNamespace},
	}
	if o.network != "host" {
		ns = append(ns, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	}
	if o.unifiedCgr {
		ns = append(ns, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return ns
}

func runcMounts() []specs.Mount {
	opts := func(o ...string) []string { return append([]string{"nosuid", "noexec", "nodev"}, o...) }
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: opts("mode=1777", "size=65536k")},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: opts()},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: opts("ro")},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: opts("relatime", "ro")},
	}
}

// boundMounts are n folders of the host, read-only.
func boundMounts(n int) []specs.Mount {
	var all []specs.Mount
	for i := range n {
		all = append(all, specs.Mount{Destination: mountTarget(i), Type: "bind", Source: mountSource, Options: []string{"bind", "ro"}})
	}
	return all
}

// cloneNewUser is CLONE_NEWUSER of clone(2).
const cloneNewUser = 0x10000000

// seccompProfile withholds what no container needs and what has been used to
// break out of one: the calls that Docker's default profile leaves out, and
// new user namespaces. It is written as the list of what is denied, so that a
// libc's new system calls need no change here.
func seccompProfile(goarch string) *specs.LinuxSeccomp {
	arches := map[string][]specs.Arch{
		"amd64": {specs.ArchX86_64, specs.ArchX86, specs.ArchX32},
		"arm64": {specs.ArchAARCH64, specs.ArchARM},
	}
	denied := []string{
		"acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module",
		"fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms", "get_mempolicy", "init_module", "io_uring_enter",
		"io_uring_register", "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
		"lookup_dcookie", "mbind", "mount", "mount_setattr", "move_mount", "move_pages", "name_to_handle_at",
		"nfsservctl", "open_by_handle_at", "open_tree", "perf_event_open", "pivot_root", "process_vm_readv",
		"process_vm_writev", "ptrace", "query_module", "quotactl", "quotactl_fd", "reboot", "request_key",
		"set_mempolicy", "setns", "settimeofday", "stime", "swapoff", "swapon", "_sysctl", "sysfs", "umount",
		"umount2", "unshare", "uselib", "userfaultfd", "ustat", "vm86", "vm86old",
	}
	slices.Sort(denied)
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActAllow,
		Architectures: arches[goarch],
		Syscalls: []specs.LinuxSyscall{
			{Names: denied, Action: specs.ActErrno},
			{Names: []string{"clone"}, Action: specs.ActErrno, Args: []specs.LinuxSeccompArg{
				{Index: 0, Value: cloneNewUser, ValueTwo: cloneNewUser, Op: specs.OpMaskedEqual},
			}},
			// clone3 takes its flags in memory, which no filter can read: glibc
			// falls back to clone when it is told that there is none.
			{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: ptr(uint(38))}, // ENOSYS
		},
	}
}

func ptr[T any](v T) *T { return &v }
