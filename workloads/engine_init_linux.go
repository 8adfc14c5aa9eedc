//go:build amd64 || arm64

package workloads

import (
	"fmt"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// initPipes are the descriptors through which a container's init and its
// engine talk. They are closed on execve.
type initPipes struct {
	goRead, goWrite int // one byte to read: everything outside is ready
	report          int // childReport
}

// initProgram is process 1 of a container: it sets the namespaces up from the
// inside and becomes the container's program.
func (c *engineContainer) initProgram(pipes initPipes) (*childProgram, error) {
	p := &childProgram{}
	merged := filepath.Join(c.path, "merged")
	p.add("set the parent-death signal", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
	// Otherwise the end of an engine that died before that would not be seen.
	p.add("close", unix.SYS_CLOSE, pipes.goWrite)
	p.mountRoot(c.spec.Rootfs, c.path)
	p.mountSystem(merged)
	p.mountBound(merged, c.spec.Mounts)
	p.pivot(merged)
	p.hostname(c.id)
	if c.spec.Network != "host" {
		p.loopbackUp()
	}
	p.add("wait for the engine", unix.SYS_READ, pipes.goRead, unsafe.Pointer(new([1]byte)), 1).nonzero = true
	if err := p.dropPrivileges(); err != nil {
		return nil, err
	}
	p.filterSyscalls()
	p.unblockSignals()
	return p, p.exec(c.spec.Args, c.spec.Env)
}

func (p *childProgram) mount(source, target, fstype string, flags uintptr, options string) *childCall {
	return p.add("mount "+fstype+" on "+target, unix.SYS_MOUNT, source, target, fstype, flags, options)
}

func (p *childProgram) mkdir(path string) *childCall {
	return p.add("mkdir "+path, unix.SYS_MKDIRAT, unix.AT_FDCWD, path, 0o755)
}

// mountRoot mounts the container's root file system: an overlay whose upper
// layer is in the container's folder. Where that folder's file system cannot
// be an upper layer (it is an overlay itself, as inside of another container),
// the upper layer is on a tmpfs.
func (p *childProgram) mountRoot(lower, path string) {
	p.add("make mounts private", unix.SYS_MOUNT, "none", "/", 0, uintptr(unix.MS_REC|unix.MS_PRIVATE), 0)
	first := p.here()
	p.overlay(lower, path, path).onError = first + 1
	scratch := filepath.Join(path, "work")
	p.mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700")
	p.mkdir(filepath.Join(scratch, "upper"))
	p.mkdir(filepath.Join(scratch, "work"))
	p.overlay(lower, scratch, path)
	p.calls[first].then = p.here()
}

func (p *childProgram) overlay(lower, layers, path string) *childCall {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", lower, layers, layers)
	return p.mount("overlay", filepath.Join(path, "merged"), "overlay", 0, options)
}

// systemMount is a file system of the kernel inside of a container.
type systemMount struct {
	target, fstype string
	flags          uintptr
	options        string
	make           bool // the mount point is not part of the rootfs
}

// systemMounts are those that the OCI runtime specification asks of a Linux
// container.
func systemMounts() []systemMount {
	const strict = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return []systemMount{
		{target: "proc", fstype: "proc", flags: strict},
		{target: "sys", fstype: "sysfs", flags: strict | unix.MS_RDONLY},
		{target: "dev", fstype: "tmpfs", flags: unix.MS_NOSUID | unix.MS_STRICTATIME, options: "mode=755,size=65536k"},
		{target: "dev/pts", fstype: "devpts", flags: unix.MS_NOSUID | unix.MS_NOEXEC, options: "newinstance,ptmxmode=0666,mode=0620", make: true},
		{target: "dev/shm", fstype: "tmpfs", flags: strict, options: "mode=1777,size=65536k", make: true},
	}
}

func (p *childProgram) mountSystem(root string) {
	p.add("set the file mode mask", unix.SYS_UMASK, 0)
	for _, m := range systemMounts() {
		target := filepath.Join(root, m.target)
		if m.make {
			p.mkdir(target)
		}
		p.mount(m.fstype, target, m.fstype, m.flags, m.options)
	}
	for _, n := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		path := filepath.Join(root, "dev", n.name)
		p.add("mknod "+path, unix.SYS_MKNODAT, unix.AT_FDCWD, path, unix.S_IFCHR|0o666, int(unix.Mkdev(n.major, n.minor)))
	}
	for _, l := range [][2]string{{"pts/ptmx", "ptmx"}, {"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"},
		{"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"}} {
		path := filepath.Join(root, "dev", l[1])
		p.add("symlink "+path, unix.SYS_SYMLINKAT, l[0], unix.AT_FDCWD, path)
	}
}

// mountBound binds n folders of the host, read-only: which takes a second
// mount (mount(2), "Creating a bind mount").
func (p *childProgram) mountBound(root string, n int) {
	for i := range n {
		target := filepath.Join(root, mountTarget(i))
		p.mkdir(target)
		p.mount(mountSource, target, "", unix.MS_BIND, "")
		p.mount(mountSource, target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
}

// pivot makes root the root and lets go of the old one. Both may be the same
// folder (pivot_root(2), "pivot_root . ."), so none is needed for the old. When
// the old root is the initial ramfs, which nothing can be moved away from, the
// new one is mounted over it instead.
func (p *childProgram) pivot(root string) {
	p.add("chdir "+root, unix.SYS_CHDIR, root)
	first := p.here()
	p.add("pivot_root", unix.SYS_PIVOT_ROOT, ".", ".")
	p.add("unmount the old root", unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	p.calls[first].onError = p.here()
	p.add("move root", unix.SYS_MOUNT, ".", "/", 0, unix.MS_MOVE, 0)
	p.add("chroot", unix.SYS_CHROOT, ".")
	p.calls[first+1].then = p.here()
	p.add("chdir /", unix.SYS_CHDIR, "/")
}

func (p *childProgram) hostname(name string) {
	p.add("set hostname", unix.SYS_SETHOSTNAME, name, len(name))
}

// loopbackUp brings lo up in a network namespace of the container's own.
func (p *childProgram) loopbackUp() {
	// struct ifreq: the name, then the flags.
	request := new([40]byte)
	copy(request[:unix.IFNAMSIZ-1], "lo")
	*(*uint16)(unsafe.Pointer(&request[unix.IFNAMSIZ])) = unix.IFF_UP
	p.add("socket for lo", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	p.add("set lo up", unix.SYS_IOCTL, 0, unix.SIOCSIFFLAGS, unsafe.Pointer(request)).takes = true
}

// unblockSignals undoes for the container's program what fork does for the
// child. The runtime's handlers are still there until execve, so signals that
// process 1 could get are set to their default first, which is to ignore them.
func (p *childProgram) unblockSignals() {
	none := new(unix.Sigset_t)
	def := new([4]uintptr) // struct sigaction of the kernel: SIG_DFL, no flags, no restorer, empty mask
	const sigsetSize = 8
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGURG} {
		p.add("reset signal", unix.SYS_RT_SIGACTION, int(s), unsafe.Pointer(def), 0, sigsetSize)
	}
	p.add("unblock signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, unsafe.Pointer(none), 0, sigsetSize)
}

func (p *childProgram) exec(args, env []string) error {
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	envv, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	p.keep = append(p.keep, argv, envv)
	p.add("exec "+args[0], unix.SYS_EXECVE, args[0], unsafe.Pointer(&argv[0]), unsafe.Pointer(&envv[0]))
	return nil
}
