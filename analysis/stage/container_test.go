package stage

import (
	"slices"
	"strings"
	"testing"

	"stagetrace/tracer"
)

// The stages of a container start, as documentation lists them, each with
// moments that belong to it.
func TestContainerStart(t *testing.T) {
	const (
		run, blocked, runnable = tracer.StateRunning, tracer.StateBlocked, tracer.StateRunnable
	)
	cases := []struct {
		step, role, frames, call string
		state                    tracer.TaskState
		window                   string // of this stage's rules
		want                     string
	}{
		{"client start", "client", "filemap_map_pages do_fault exc_page_fault", "", run, "client.start", "client.start"},
		{"client start", "client", "io_schedule folio_wait_bit_common filemap_fault do_fault exc_page_fault", "", blocked, "client.start", "client.start"},
		{"client start", "client", "", "openat", runnable, "client.start", "client.start"},
		{"api", "client", "unix_stream_sendmsg __sys_sendto", "write", run, "", "api.request"},
		{"api", "driver", "unix_stream_read_generic unix_stream_recvmsg", "read", blocked, "", "api.request"},
		{"api", "daemon", "unix_stream_read_generic unix_stream_recvmsg", "read", run, "", "api.request"},
		{"client waits", "client", "do_epoll_wait", "epoll_pwait", blocked, "", "client.wait"},
		{"rootfs", "daemon", "ovl_fill_super vfs_get_tree path_mount", "mount", run, "", "rootfs.prepare"},
		{"rootfs", "daemon", "wb_wait_for_completion sync_filesystem ovl_sync_fs generic_shutdown_super cleanup_mnt", "umount2", blocked, "", "rootfs.prepare"},
		{"state persist", "daemon", "io_schedule folio_wait_writeback ext4_sync_file do_fsync", "fsync", blocked, "", "state.persist"},
		{"state persist", "containerd", "submit_bio_wait blkdev_issue_flush ext4_sync_file do_fsync", "fdatasync", blocked, "", "state.persist"},
		{"shim", "shim", "", "", run, "", "shim.start"},
		{"shim", "shim", "filemap_fault do_fault exc_page_fault", "", run, "", "shim.start"},
		{"runtime exec", "runtime", "", "", run, "", "runtime.start"},
		{"runtime exec", "runtime", "do_fault exc_page_fault", "", run, "", "runtime.start"},
		{"runtime exec", "runtime", "setup_arg_pages load_elf_binary bprm_execve", "execve", run, "", "runtime.start"},
		{"namespaces", "runtime-init", "setup_net copy_net_ns create_new_namespaces", "unshare", run, "", "ns.net"},
		{"namespaces", "engine", "copy_mnt_ns create_new_namespaces copy_process kernel_clone", "clone3", run, "", "ns.mnt"},
		{"cgroup", "runtime", "synchronize_rcu_normal percpu_down_write cgroup_procs_write_start kernfs_fop_write_iter", "write", blocked, "", "cgroup.attach"},
		{"cgroup", "runtime", "cgroup_mkdir do_mkdirat", "mkdirat", run, "", "cgroup.create"},
		{"mounts", "runtime-init", "path_mount", "mount", run, "", "mount.new"},
		{"pivot", "runtime-init", "chroot_fs_refs __do_sys_pivot_root", "pivot_root", run, "", "mount.pivot"},
		{"set-up inside", "runtime-init", "", "", run, "", "runtime.init"},
		{"network", "hook", "", "", run, "", "hook.network"},
		{"network", "hook", "filemap_map_pages exc_page_fault", "", run, "", "hook.network"},
		{"network", "hook", "bprm_execve", "execve", blocked, "", "hook.network"},
		{"network", "daemon", "rcu_barrier __dev_change_net_namespace do_setlink.isra.0", "sendto", blocked, "", "net.link.move_ns"},
		{"security", "runtime-init", "do_seccomp", "seccomp", run, "", "security.seccomp"},
		{"security", "runtime-init", "bpf_int_jit_compile bpf_prog_create_from_user do_seccomp __do_sys_prctl", "prctl", run, "", "security.seccomp"},
		{"security", "runtime-init", "cap_task_prctl __do_sys_prctl", "prctl", run, "", "security.caps"},
		{"security", "runtime-init", "", "prctl", runnable, "", "security.caps"},
		{"container", "container", "", "", run, "", "container.run"},
		{"container", "container", "do_nanosleep hrtimer_nanosleep", "nanosleep", blocked, "", "container.run"},
		{"container", "container", "exit_mmap __mmput do_exit", "exit_group", run, "", "container.run"},
		{"container", "container", "", "exit_group", run, "", "container.run"},
		{"container", "container", "cleanup_mnt put_mnt_ns do_exit", "exit_group", run, "", "proc.exit.ns"},
		{"exit notice", "shim", "", "", run, "exit.notice", "exit.notice"},
		{"runtime delete", "runtime-delete", "", "", run, "", "runtime.delete"},
		{"runtime delete", "runtime-delete", "cgroup_rmdir do_rmdir", "unlinkat", run, "", "cgroup.remove"},
		{"runtime delete", "shim-delete", "exc_page_fault", "", run, "", "runtime.delete"},
		{"runtime delete", "engine", "", "", run, "runtime.delete", "runtime.delete"},
		{"veth teardown", "daemon", "rcu_barrier netdev_run_todo rtnl_dellink", "sendto", blocked, "", "net.link.delete"},
		{"rootfs removal", "daemon", "synchronize_rcu_expedited path_umount", "umount2", blocked, "rootfs.remove", "rootfs.remove"},
		{"rootfs removal", "daemon", "blkdev_issue_discard ext4_truncate do_unlinkat", "unlinkat", blocked, "", "rootfs.remove"},
		{"client exit", "client", "", "", run, "client.exit", "client.exit"},
		{"daemon", "daemon", "", "", run, "", "daemon.compute"},
		{"daemon", "containerd", "", "futex", runnable, "", "daemon.compute"},
		{"no daemon", "daemonless", "", "", run, "", "engine.compute"},
		{"no daemon", "daemonless", "exc_page_fault", "", run, "", "engine.compute"},
		{"off the path", "kernel", "rcu_barrier cleanup_net process_one_work", "", blocked, "", "netns.cleanup"},
		{"kernel", "kernel", "", "", run, "", "-"},
		{"nobody", "", "", "", run, "", "proc.user"},
	}
	s := mustLoad(t, "container")
	w := newWorld()
	tasks := map[string]tracer.TaskID{"": w.process("nobody", "", "/usr/bin/nobody nobody")}
	for role, make := range roleFixtures {
		tasks[role] = make(w)
	}
	sits := make([]Situation, len(cases))
	for i, c := range cases {
		sits[i] = Situation{State: c.state, Wait: NoWait, Phase: PhaseRunning, Syscall: w.String(c.call)}
		if c.frames != "" {
			sits[i].Stack = w.kernelStack(strings.Fields(c.frames)...)
		}
		for _, r := range s.rules {
			if r.window >= 0 && s.text(r.stage) == c.window {
				sits[i].Windows |= 1 << r.window
			}
		}
	}
	m := s.Bind(w.Trace())
	for i, c := range cases {
		sits[i].Actor = m.Actor(tasks[c.role], 9000)
		if c.state == blocked {
			sits[i].Wait = m.Wait(sits[i].Stack, sits[i].Syscall, 0, 0)
		}
		if got := s.text(m.Stage(&sits[i])); got != c.want {
			t.Errorf("%s: %s %s in %q %s: %s, want %s", c.step, c.role, c.state, c.call, c.frames, got, c.want)
		}
	}
}

// Every fixture has the role it is named for, in the first set with such a role.
func TestRoles(t *testing.T) {
	sets := []*Set{mustLoad(t, "container"), mustLoad(t, "http")}
	w := newWorld()
	tasks := map[string]tracer.TaskID{}
	for role, make := range roleFixtures {
		tasks[role] = make(w)
	}
	tr := w.Trace()
	for role, id := range tasks {
		i := slices.IndexFunc(sets, func(s *Set) bool { return s.RoleNamed(role) != NoRole })
		if i < 0 {
			t.Errorf("no set has a role %s", role)
			continue
		}
		s := sets[i]
		m := s.Bind(tr)
		if got := m.Role(m.Actor(id, 9000)); got == NoRole || s.Roles[got].Name != role {
			t.Errorf("%s has role %d", role, got)
		}
	}
	m := sets[0].Bind(tr)
	if got := m.Role(m.Actor(tracer.NoTask, 1)); got != NoRole {
		t.Errorf("no task has role %d", got)
	}
}

// A container's life: shim, fork, runc, fork, runc init, memfd clone, fork
// without exec, the program, its child; and the hook that runc starts.
func TestRolesThroughForkAndExec(t *testing.T) {
	s := mustLoad(t, "container")
	w := newWorld()
	w.process("shim", "", "/usr/bin/containerd-shim-runc-v2 containerd-shim-runc-v2 -id 1")
	runc := w.process("runc", "shim", "/usr/sbin/runc runc create 1")
	init := w.process("init", "runc", "/usr/sbin/runc runc init", "/memfd:runc_cloned:/proc/self/exe runc init")
	stage2 := w.process("stage2", "init", "/bin/sh sh -c true")
	w.TaskInfo(stage2).Born = 6200
	w.TaskInfo(stage2).Images[0].Time = 6300
	child := w.process("child", "stage2", "/bin/true true")
	w.TaskInfo(child).Born = 7000
	w.TaskInfo(child).Images[0].Time = 8000
	hook := w.process("hook", "runc", "/usr/sbin/dockerd libnetwork-setkey x")
	bridge := w.process("bridge", "runc", "/bin/trace trace __engine hook /run/stagetrace/runc/1-2-0-0-1 c1")
	crun := w.process("crun", "", "/usr/bin/crun crun create 1")
	w.TaskInfo(crun).Images[0].Time = 0
	memory := w.process("memory", "", "/usr/bin/crun /usr/bin/crun run 1", "/ /usr/bin/crun run 1")
	service := w.process("service", "", "/usr/bin/podman podman system service --time=0")
	cleanup := w.process("cleanup", "", "/usr/bin/podman /usr/bin/podman --root /r container cleanup --rm 1")
	inside := w.process("inside", "crun", "/bin/prog prog")
	w.TaskInfo(inside).NSPID = 1
	// Parents in a circle: a damaged trace.
	a, b := w.process("a", "", "/a a"), w.process("b", "a")
	w.TaskInfo(a).Parent, w.TaskInfo(a).Images = b, nil
	m := s.Bind(w.Trace())
	for _, c := range []struct {
		name string
		task tracer.TaskID
		at   tracer.Time
		want string
	}{
		{"forked by the shim", runc, 5500, "shim"},
		{"runc", runc, 6500, "runtime"},
		{"forked by runc", init, 5500, "shim"}, // runc had not been executed then
		{"runc init", init, 6050, "runtime-init"},
		{"its clone in memory", init, 6150, "runtime-init"},
		{"forked to become the program", stage2, 6250, "runtime-init"},
		{"the program", stage2, 6350, "container"},
		{"forked by the program", child, 7500, "container"},
		{"the program's child", child, 8500, "container"},
		{"hook", hook, 6050, "hook"},
		{"our own hook", bridge, 6050, "hook"},
		{"crun", crun, 100, "runtime"},
		{"crun, executed from memory", memory, 9000, "runtime"},
		{"podman's service", service, 9000, "daemon"},
		{"podman after a container", cleanup, 9000, "shim-delete"},
		{"first process of crun's container", inside, 6050, "container"},
		{"circle", a, 9000, "-"},
	} {
		got := "-"
		if r := m.Role(m.Actor(c.task, c.at)); r != NoRole {
			got = s.Roles[r].Name
		}
		if got != c.want {
			t.Errorf("%s: role %s, want %s", c.name, got, c.want)
		}
	}
}

// The whole of "runc init" runs inside of an initialiser of a Go program: what
// it has the kernel make keeps its name, the rest is loading or set-up.
func TestInitialiser(t *testing.T) {
	w := newWorld()
	tasks := map[string]tracer.TaskID{"program": w.process("program", "", "/usr/bin/program program"), "runtime-init": roleFixtures["runtime-init"](w)}
	stack := func(kernel string) tracer.StackID {
		var frames []uint32
		for n := range strings.FieldsSeq(kernel) {
			frames = append(frames, w.Frame(tracer.Frame{Func: w.String(n), Object: w.String("[kernel]"), Kernel: true}))
		}
		for _, n := range []string{"main.init.0", "runtime.doInit1", "runtime.main"} {
			frames = append(frames, w.Frame(tracer.Frame{Func: w.String(n), Object: w.String("/usr/bin/program")}))
		}
		return w.Stack(frames, false)
	}
	sets := map[string]*Set{"linux": mustLoad(t, "linux"), "container": mustLoad(t, "container")}
	cases := []struct{ set, task, frames, want string }{
		{"linux", "program", "path_mount do_syscall_64", "mount.new"},
		{"linux", "program", "setup_net copy_net_ns", "ns.net"},
		{"linux", "program", "bpf_prog_create_from_user do_seccomp", "security.seccomp"},
		{"linux", "program", "", "proc.load"},
		{"linux", "program", "filemap_fault do_fault exc_page_fault", "proc.load"},
		{"linux", "program", "vfs_read ksys_read", "proc.load"},
		{"container", "runtime-init", "path_mount do_syscall_64", "mount.new"},
		{"container", "runtime-init", "path_pivot_root __do_sys_pivot_root", "mount.pivot"},
		{"container", "runtime-init", "bpf_prog_create_from_user do_seccomp", "security.seccomp"},
		{"container", "runtime-init", "", "runtime.init"},
		{"container", "runtime-init", "filemap_fault do_fault exc_page_fault", "runtime.init"},
	}
	stacks := make([]tracer.StackID, len(cases))
	for i, c := range cases {
		stacks[i] = stack(c.frames)
	}
	tr := w.Trace()
	for i, c := range cases {
		sit := Situation{State: tracer.StateRunning, Wait: NoWait, Phase: PhaseRunning, Stack: stacks[i]}
		m := sets[c.set].Bind(tr)
		sit.Actor = m.Actor(tasks[c.task], 9000)
		if got := sets[c.set].text(m.Stage(&sit)); got != c.want {
			t.Errorf("%s: %s in %q: %s, want %s", c.set, c.task, c.frames, got, c.want)
		}
	}
}
