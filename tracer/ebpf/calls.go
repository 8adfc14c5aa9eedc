//go:build linux

package ebpf

import (
	"golang.org/x/sys/unix"

	"stagetrace/bpf"
)

// argument says how one argument of a system call is read in the kernel, and
// under which key (tracer.ArgKeys) it is told. Words, if any, turn its value
// into text. The zero argument is not told.
type argument struct {
	kind  bpf.TraceArgKind
	key   string
	words *wordTable
}

// call is one row of the table of system calls.
type call struct {
	name string
	args [6]argument
}

var (
	argNone     = argument{}
	argPath     = argument{bpf.TraceArgKindARG_PATH, "path", nil}
	argTarget   = argument{bpf.TraceArgKindARG_PATH, "target", nil}
	argDFD      = argument{bpf.TraceArgKindARG_DFD, "", nil}
	argPathAt   = argument{bpf.TraceArgKindARG_PATH_AT, "path", nil}
	argTargetAt = argument{bpf.TraceArgKindARG_PATH_AT, "target", nil}
	argFstype   = argument{bpf.TraceArgKindARG_STRING, "fstype", nil}
	argFile     = argument{bpf.TraceArgKindARG_FD, "path", nil}
	argAddress  = argument{bpf.TraceArgKindARG_SOCKADDR, "address", nil}
	argNetlink  = argument{bpf.TraceArgKindARG_NETLINK, "netlink", nil}
	argMsghdr   = argument{bpf.TraceArgKindARG_MSGHDR, "netlink", nil}
)

func argFlags(w *wordTable) argument { return argument{key: "flags", words: w} }
func argOp(w *wordTable) argument    { return argument{key: "op", words: w} }

// calls lists the system calls whose arguments are read. Any other one has its
// times and its return value only.
var calls = []call{
	{"read", [6]argument{argFile}},
	{"pread64", [6]argument{argFile}},
	{"readv", [6]argument{argFile}},
	{"preadv", [6]argument{argFile}},
	{"preadv2", [6]argument{argFile}},
	{"write", [6]argument{argFile}},
	{"pwrite64", [6]argument{argFile}},
	{"writev", [6]argument{argFile}},
	{"pwritev", [6]argument{argFile}},
	{"pwritev2", [6]argument{argFile}},
	{"fsync", [6]argument{argFile}},
	{"fdatasync", [6]argument{argFile}},
	{"syncfs", [6]argument{argFile}},
	{"sync_file_range", [6]argument{argFile}},
	{"ftruncate", [6]argument{argFile}},
	{"fallocate", [6]argument{argFile}},
	{"flock", [6]argument{argFile}},
	{"ioctl", [6]argument{argFile}},
	{"fstat", [6]argument{argFile}},
	{"getdents64", [6]argument{argFile}},
	{"sendfile", [6]argument{argFile}},
	{"copy_file_range", [6]argument{argFile}},
	{"splice", [6]argument{argFile}},
	{"fchdir", [6]argument{argFile}},
	{"fchmod", [6]argument{argFile}},
	{"fchown", [6]argument{argFile}},
	{"accept", [6]argument{argFile}},
	{"accept4", [6]argument{argFile}},
	{"recvfrom", [6]argument{argFile}},
	{"recvmsg", [6]argument{argFile}},
	{"shutdown", [6]argument{argFile}},
	{"open", [6]argument{argPath, argFlags(&openFlags)}},
	{"creat", [6]argument{argPath}},
	{"openat", [6]argument{argDFD, argPathAt, argFlags(&openFlags)}},
	{"openat2", [6]argument{argDFD, argPathAt, {bpf.TraceArgKindARG_FLAGS64, "flags", &openFlags}}},
	{"mkdir", [6]argument{argPath}},
	{"mkdirat", [6]argument{argDFD, argPathAt}},
	{"mknod", [6]argument{argPath}},
	{"mknodat", [6]argument{argDFD, argPathAt}},
	{"unlink", [6]argument{argPath}},
	{"unlinkat", [6]argument{argDFD, argPathAt}},
	{"rmdir", [6]argument{argPath}},
	{"rename", [6]argument{argPath, argTarget}},
	{"renameat", [6]argument{argDFD, argPathAt, argDFD, argTargetAt}},
	{"renameat2", [6]argument{argDFD, argPathAt, argDFD, argTargetAt}},
	{"link", [6]argument{argPath, argTarget}},
	{"linkat", [6]argument{argDFD, argPathAt, argDFD, argTargetAt}},
	{"symlink", [6]argument{{bpf.TraceArgKindARG_STRING, "target", nil}, argPath}},
	{"symlinkat", [6]argument{{bpf.TraceArgKindARG_STRING, "target", nil}, argDFD, argPathAt}},
	{"readlink", [6]argument{argPath}},
	{"readlinkat", [6]argument{argDFD, argPathAt}},
	{"chdir", [6]argument{argPath}},
	{"chroot", [6]argument{argPath}},
	{"chmod", [6]argument{argPath}},
	{"fchmodat", [6]argument{argDFD, argPathAt}},
	{"chown", [6]argument{argPath}},
	{"lchown", [6]argument{argPath}},
	{"fchownat", [6]argument{argDFD, argPathAt}},
	{"stat", [6]argument{argPath}},
	{"lstat", [6]argument{argPath}},
	{"newfstatat", [6]argument{argDFD, argPathAt}},
	{"statx", [6]argument{argDFD, argPathAt}},
	{"access", [6]argument{argPath}},
	{"faccessat", [6]argument{argDFD, argPathAt}},
	{"faccessat2", [6]argument{argDFD, argPathAt}},
	{"statfs", [6]argument{argPath}},
	{"truncate", [6]argument{argPath}},
	{"setxattr", [6]argument{argPath}},
	{"lsetxattr", [6]argument{argPath}},
	{"execve", [6]argument{argPath}},
	{"execveat", [6]argument{argDFD, argPathAt}},
	{"mount", [6]argument{argPath, argTarget, argFstype, argFlags(&mountFlags)}},
	{"umount2", [6]argument{argPath, argFlags(&umountFlags)}},
	{"pivot_root", [6]argument{argPath, argTarget}},
	{"fsopen", [6]argument{argFstype}},
	{"fsconfig", [6]argument{argNone, argOp(&fsconfigCommands)}},
	{"fspick", [6]argument{argDFD, argPathAt}},
	{"move_mount", [6]argument{argDFD, argPathAt, argDFD, argTargetAt, argFlags(&moveMountFlags)}},
	{"open_tree", [6]argument{argDFD, argPathAt, argFlags(&openTreeFlags)}},
	{"mount_setattr", [6]argument{argDFD, argPathAt}},
	{"clone", [6]argument{argFlags(&cloneFlags)}},
	{"clone3", [6]argument{{bpf.TraceArgKindARG_FLAGS64, "flags", &cloneFlags}}},
	{"unshare", [6]argument{argFlags(&cloneFlags)}},
	{"setns", [6]argument{argFile, argFlags(&cloneFlags)}},
	{"connect", [6]argument{argNone, argAddress}},
	{"bind", [6]argument{argNone, argAddress}},
	{"sendto", [6]argument{argFile, argNetlink, argNone, argNone, argAddress}},
	{"sendmsg", [6]argument{argFile, argMsghdr}},
	{"seccomp", [6]argument{argOp(&seccompOps), argFlags(&seccompFlags)}},
	{"prctl", [6]argument{argOp(&prctlOps)}},
	{"keyctl", [6]argument{argOp(&keyctlOps)}},
	{"bpf", [6]argument{argOp(&bpfCommands)}},
	{"fcntl", [6]argument{argFile, argOp(&fcntlCommands)}},
	{"futex", [6]argument{argNone, argOp(&futexOps)}},
	{"madvise", [6]argument{argNone, argNone, argOp(&madviseAdvice)}},
	{"epoll_ctl", [6]argument{argNone, argOp(&epollOps)}},
}

// callNumber is a call's number on this machine, -1 when it has none.
func callNumber(name string) int {
	for nr, n := range syscallNames {
		if n == name {
			return nr
		}
	}
	return -1
}

// callRow is the row of a call, or one that has its name only.
func callRow(name string) call {
	for i := range calls {
		if calls[i].name == name {
			return calls[i]
		}
	}
	return call{name: name}
}

// callSpec is a row as the programs read it.
func callSpec(name string) bpf.TraceCallSpec {
	row := callRow(name)
	spec := bpf.TraceCallSpec{Want: 1}
	for i, a := range row.args {
		spec.Arg[i] = uint8(a.kind)
	}
	return spec
}

// wordTable names the values of an argument: all of its bits, or one of a list.
type wordTable struct {
	values []word
	oneOf  bool
	mask   uint64 // of oneOf: the bits that choose; 0: all
}

type word struct {
	value uint64
	name  string
}

// append writes the words of a value, joined by |; bits without a name are left
// out.
func (w *wordTable) append(buf []byte, value uint64) []byte {
	if w.oneOf {
		if w.mask != 0 {
			value &= w.mask
		}
		for _, x := range w.values {
			if x.value == value {
				return append(buf, x.name...)
			}
		}
		return buf
	}
	n := len(buf)
	for _, x := range w.values {
		if value&x.value == x.value {
			if len(buf) > n {
				buf = append(buf, '|')
			}
			buf = append(buf, x.name...)
		}
	}
	return buf
}

var cloneFlags = wordTable{values: []word{
	{unix.CLONE_VM, "CLONE_VM"}, {unix.CLONE_FS, "CLONE_FS"}, {unix.CLONE_FILES, "CLONE_FILES"}, {unix.CLONE_SIGHAND, "CLONE_SIGHAND"},
	{unix.CLONE_PIDFD, "CLONE_PIDFD"}, {unix.CLONE_VFORK, "CLONE_VFORK"}, {unix.CLONE_PARENT, "CLONE_PARENT"},
	{unix.CLONE_THREAD, "CLONE_THREAD"}, {unix.CLONE_NEWNS, "CLONE_NEWNS"}, {unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
	{unix.CLONE_NEWUTS, "CLONE_NEWUTS"}, {unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, {unix.CLONE_NEWUSER, "CLONE_NEWUSER"},
	{unix.CLONE_NEWPID, "CLONE_NEWPID"}, {unix.CLONE_NEWNET, "CLONE_NEWNET"}, {unix.CLONE_INTO_CGROUP, "CLONE_INTO_CGROUP"},
}}

var mountFlags = wordTable{values: []word{
	{unix.MS_RDONLY, "MS_RDONLY"}, {unix.MS_NOSUID, "MS_NOSUID"}, {unix.MS_NODEV, "MS_NODEV"}, {unix.MS_NOEXEC, "MS_NOEXEC"},
	{unix.MS_REMOUNT, "MS_REMOUNT"}, {unix.MS_BIND, "MS_BIND"}, {unix.MS_MOVE, "MS_MOVE"}, {unix.MS_REC, "MS_REC"},
	{unix.MS_UNBINDABLE, "MS_UNBINDABLE"}, {unix.MS_PRIVATE, "MS_PRIVATE"}, {unix.MS_SLAVE, "MS_SLAVE"}, {unix.MS_SHARED, "MS_SHARED"},
}}

var umountFlags = wordTable{values: []word{
	{unix.MNT_FORCE, "MNT_FORCE"}, {unix.MNT_DETACH, "MNT_DETACH"}, {unix.MNT_EXPIRE, "MNT_EXPIRE"}, {unix.UMOUNT_NOFOLLOW, "UMOUNT_NOFOLLOW"},
}}

var openFlags = wordTable{values: []word{
	{unix.O_WRONLY, "O_WRONLY"}, {unix.O_RDWR, "O_RDWR"}, {unix.O_CREAT, "O_CREAT"}, {unix.O_EXCL, "O_EXCL"}, {unix.O_TRUNC, "O_TRUNC"},
	{unix.O_APPEND, "O_APPEND"}, {unix.O_DIRECTORY, "O_DIRECTORY"}, {unix.O_PATH, "O_PATH"}, {unix.O_DIRECT, "O_DIRECT"},
}}

var moveMountFlags = wordTable{values: []word{
	{unix.MOVE_MOUNT_F_EMPTY_PATH, "MOVE_MOUNT_F_EMPTY_PATH"}, {unix.MOVE_MOUNT_T_EMPTY_PATH, "MOVE_MOUNT_T_EMPTY_PATH"},
}}

var openTreeFlags = wordTable{values: []word{{unix.OPEN_TREE_CLONE, "OPEN_TREE_CLONE"}, {unix.AT_RECURSIVE, "AT_RECURSIVE"}}}

var seccompFlags = wordTable{values: []word{
	{unix.SECCOMP_FILTER_FLAG_TSYNC, "SECCOMP_FILTER_FLAG_TSYNC"}, {unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, "SECCOMP_FILTER_FLAG_NEW_LISTENER"},
}}

var seccompOps = wordTable{oneOf: true, values: []word{
	{unix.SECCOMP_SET_MODE_STRICT, "SECCOMP_SET_MODE_STRICT"}, {unix.SECCOMP_SET_MODE_FILTER, "SECCOMP_SET_MODE_FILTER"},
	{unix.SECCOMP_GET_ACTION_AVAIL, "SECCOMP_GET_ACTION_AVAIL"}, {unix.SECCOMP_GET_NOTIF_SIZES, "SECCOMP_GET_NOTIF_SIZES"},
}}

var prctlOps = wordTable{oneOf: true, values: []word{
	{unix.PR_SET_PDEATHSIG, "PR_SET_PDEATHSIG"}, {unix.PR_SET_DUMPABLE, "PR_SET_DUMPABLE"}, {unix.PR_SET_KEEPCAPS, "PR_SET_KEEPCAPS"},
	{unix.PR_SET_NAME, "PR_SET_NAME"}, {unix.PR_GET_NAME, "PR_GET_NAME"}, {unix.PR_SET_SECCOMP, "PR_SET_SECCOMP"},
	{unix.PR_GET_SECCOMP, "PR_GET_SECCOMP"}, {unix.PR_CAPBSET_READ, "PR_CAPBSET_READ"}, {unix.PR_CAPBSET_DROP, "PR_CAPBSET_DROP"},
	{unix.PR_SET_NO_NEW_PRIVS, "PR_SET_NO_NEW_PRIVS"}, {unix.PR_SET_CHILD_SUBREAPER, "PR_SET_CHILD_SUBREAPER"},
	{unix.PR_CAP_AMBIENT, "PR_CAP_AMBIENT"}, {unix.PR_SET_MM, "PR_SET_MM"}, {unix.PR_SET_VMA, "PR_SET_VMA"},
}}

var keyctlOps = wordTable{oneOf: true, values: []word{
	{unix.KEYCTL_GET_KEYRING_ID, "KEYCTL_GET_KEYRING_ID"}, {unix.KEYCTL_JOIN_SESSION_KEYRING, "KEYCTL_JOIN_SESSION_KEYRING"},
	{unix.KEYCTL_SETPERM, "KEYCTL_SETPERM"}, {unix.KEYCTL_DESCRIBE, "KEYCTL_DESCRIBE"},
}}

var fsconfigCommands = wordTable{oneOf: true, values: []word{
	{unix.FSCONFIG_SET_FLAG, "FSCONFIG_SET_FLAG"}, {unix.FSCONFIG_SET_STRING, "FSCONFIG_SET_STRING"},
	{unix.FSCONFIG_SET_BINARY, "FSCONFIG_SET_BINARY"}, {unix.FSCONFIG_SET_PATH, "FSCONFIG_SET_PATH"},
	{unix.FSCONFIG_SET_PATH_EMPTY, "FSCONFIG_SET_PATH_EMPTY"}, {unix.FSCONFIG_SET_FD, "FSCONFIG_SET_FD"},
	{unix.FSCONFIG_CMD_CREATE, "FSCONFIG_CMD_CREATE"}, {unix.FSCONFIG_CMD_RECONFIGURE, "FSCONFIG_CMD_RECONFIGURE"},
}}

var bpfCommands = wordTable{oneOf: true, values: []word{
	{unix.BPF_MAP_CREATE, "BPF_MAP_CREATE"}, {unix.BPF_MAP_LOOKUP_ELEM, "BPF_MAP_LOOKUP_ELEM"}, {unix.BPF_MAP_UPDATE_ELEM, "BPF_MAP_UPDATE_ELEM"},
	{unix.BPF_MAP_DELETE_ELEM, "BPF_MAP_DELETE_ELEM"}, {unix.BPF_PROG_LOAD, "BPF_PROG_LOAD"}, {unix.BPF_PROG_ATTACH, "BPF_PROG_ATTACH"},
	{unix.BPF_PROG_DETACH, "BPF_PROG_DETACH"}, {unix.BPF_PROG_QUERY, "BPF_PROG_QUERY"}, {unix.BPF_LINK_CREATE, "BPF_LINK_CREATE"},
}}

var fcntlCommands = wordTable{oneOf: true, values: []word{
	{unix.F_GETFL, "F_GETFL"}, {unix.F_SETFL, "F_SETFL"}, {unix.F_SETFD, "F_SETFD"}, {unix.F_SETLK, "F_SETLK"}, {unix.F_SETLKW, "F_SETLKW"},
	{unix.F_DUPFD_CLOEXEC, "F_DUPFD_CLOEXEC"}, {unix.F_ADD_SEALS, "F_ADD_SEALS"},
}}

// The low bits of a futex operation; the rest are FUTEX_PRIVATE_FLAG and the like.
var futexOps = wordTable{oneOf: true, mask: 0x7f, values: []word{
	{0, "FUTEX_WAIT"}, {1, "FUTEX_WAKE"}, {3, "FUTEX_REQUEUE"}, {4, "FUTEX_CMP_REQUEUE"}, {5, "FUTEX_WAKE_OP"}, {6, "FUTEX_LOCK_PI"},
	{7, "FUTEX_UNLOCK_PI"}, {9, "FUTEX_WAIT_BITSET"}, {10, "FUTEX_WAKE_BITSET"},
}}

var madviseAdvice = wordTable{oneOf: true, values: []word{
	{unix.MADV_DONTNEED, "MADV_DONTNEED"}, {unix.MADV_FREE, "MADV_FREE"}, {unix.MADV_HUGEPAGE, "MADV_HUGEPAGE"},
	{unix.MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE"}, {unix.MADV_WILLNEED, "MADV_WILLNEED"},
}}

var epollOps = wordTable{oneOf: true, values: []word{
	{unix.EPOLL_CTL_ADD, "EPOLL_CTL_ADD"}, {unix.EPOLL_CTL_DEL, "EPOLL_CTL_DEL"}, {unix.EPOLL_CTL_MOD, "EPOLL_CTL_MOD"},
}}
