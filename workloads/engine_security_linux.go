//go:build amd64 || arm64

package workloads

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keptCapabilities are those that container engines leave to a container's
// root by default (the default list of moby and of the OCI tools).
func keptCapabilities() uint64 {
	var set uint64
	for _, c := range []uint{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD,
		unix.CAP_NET_RAW, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_SETPCAP,
		unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE} {
		set |= 1 << c
	}
	return set
}

// lastCapability is the highest that this kernel knows.
func lastCapability() uint {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err == nil {
		if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 6); err == nil {
			return uint(n)
		}
	}
	return unix.CAP_LAST_CAP
}

// dropPrivileges takes from the child, and from what it will become, the
// capabilities that a container does not need.
func (p *childProgram) dropPrivileges() error {
	kept := keptCapabilities()
	for c := range lastCapability() + 1 {
		if kept&(1<<c) == 0 {
			p.add("drop capability", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, int(c))
		}
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := new([2]unix.CapUserData)
	if err := unix.Capget(header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range data {
		data[i].Permitted &= uint32(kept >> (32 * i))
		data[i].Effective = data[i].Permitted
		data[i].Inheritable = 0
	}
	p.add("set capabilities", unix.SYS_CAPSET, unsafe.Pointer(header), unsafe.Pointer(data))
	return nil
}

// deniedSyscalls are calls by which a container's root could reach out of it
// or load code into the kernel; they fail with EPERM.
func deniedSyscalls() []uint32 {
	return []uint32{
		unix.SYS_ACCT, unix.SYS_ADD_KEY, unix.SYS_BPF, unix.SYS_CLOCK_SETTIME, unix.SYS_DELETE_MODULE,
		unix.SYS_FINIT_MODULE, unix.SYS_FSOPEN, unix.SYS_INIT_MODULE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_KEXEC_LOAD,
		unix.SYS_KEYCTL, unix.SYS_MOUNT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_PIVOT_ROOT, unix.SYS_PTRACE, unix.SYS_QUOTACTL, unix.SYS_REBOOT, unix.SYS_REQUEST_KEY,
		unix.SYS_SETNS, unix.SYS_SETTIMEOFDAY, unix.SYS_SWAPOFF, unix.SYS_SWAPON, unix.SYS_UMOUNT2,
		unix.SYS_UNSHARE, unix.SYS_USERFAULTFD,
	}
}

// auditArch is the architecture as seccomp names it: a call made in the
// convention of another one (32 bits on a 64-bit kernel) has other numbers.
func auditArch() uint32 {
	if runtime.GOARCH == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

// syscallFilter is the seccomp program: kill on a foreign architecture, EPERM
// for a denied call, else allow.
func syscallFilter() []unix.SockFilter {
	const number, arch = 0, 4 // offsets in struct seccomp_data
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	denied := deniedSyscalls()
	f := []unix.SockFilter{load(arch), equal(auditArch(), 1, 0), answer(unix.SECCOMP_RET_KILL_PROCESS), load(number)}
	for i, n := range denied {
		f = append(f, equal(n, uint8(len(denied)-i), 0)) // over the rest and the allow
	}
	return append(f, answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)))
}

// filterSyscalls installs the filter. no_new_privs comes first: a set-user-id
// program must not run with a filter that its owner did not choose.
func (p *childProgram) filterSyscalls() {
	filter := syscallFilter()
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	p.add("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	p.add("install seccomp filter", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, unsafe.Pointer(program))
}
