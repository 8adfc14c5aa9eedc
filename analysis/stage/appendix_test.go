package stage

import (
	"strings"
	"testing"

	"stagetrace/tracer"
)

// stacks are kernel stacks as they were seen on Linux 6.1, 6.12 and 6.18,
// leaf first, with the stage and the wait reason that they stand for. Where
// the kernel leaves the scheduler's frames out, so do some of these.
var stacks = []struct {
	frames string
	stage  string
	wait   string
}{
	// kernel workers
	{"schedule_timeout __wait_for_common rcu_barrier cleanup_net process_one_work worker_thread kthread", "netns.cleanup", "rcu.barrier"},
	{"__mutex_lock.constprop.0 rtnl_lock fib6_rules_net_exit_batch ops_undo_list cleanup_net process_one_work", "netns.cleanup", "lock.mutex"},
	{"synchronize_rcu_expedited unregister_netdevice_many_notify default_device_exit_batch cleanup_net", "netns.cleanup", "rcu.expedited"},
	{"css_killed_work_fn process_one_work worker_thread", "cgroup.release", "-"},
	{"css_free_rwork_fn process_one_work", "cgroup.release", "-"},
	{"synchronize_rcu_normal free_ipc process_one_work worker_thread", "ipc.cleanup", "rcu.normal"},
	{"destroy_pid_namespace_work process_one_work", "pidns.cleanup", "-"},
	{"free_user_ns process_one_work", "userns.cleanup", "-"},
	{"linkwatch_event process_one_work", "net.linkwatch", "-"},
	{"addrconf_dad_work process_one_work", "net.dad", "-"},
	{"rcu_barrier fqdir_free_fn process_one_work", "net.frag", "rcu.barrier"},
	{"nf_tables_trans_destroy_work process_one_work", "net.nft.cleanup", "-"},
	{"bpf_prog_free_deferred process_one_work", "bpf.cleanup", "-"},
	{"key_garbage_collector process_one_work", "security.keyring.cleanup", "-"},
	{"blk_mq_get_tag writeback_sb_inodes wb_workfn process_one_work", "block.writeback", "disk"},
	{"bit_wait_io out_of_line_wait_on_bit jbd2_journal_commit_transaction kjournald2 kthread", "block.journal", "disk"},
	{"ext4_end_io_rsv_work process_one_work", "block.complete", "-"},
	{"rcu_gp_kthread kthread ret_from_fork", "rcu.worker", "-"},
	{"wait_rcu_exp_gp kthread_worker_fn kthread", "rcu.worker", "-"},
	// end of a process
	{"synchronize_rcu_expedited namespace_unlock put_mnt_ns free_nsproxy do_exit do_group_exit __x64_sys_exit_group", "proc.exit.ns", "rcu.expedited"},
	{"unmap_page_range unmap_vmas exit_mmap __mmput do_exit __do_sys_exit_group", "proc.exit.mm", "-"},
	{"__fput task_work_run do_exit do_group_exit", "proc.exit.files", "-"},
	{"filp_close put_files_struct do_exit", "proc.exit.files", "-"},
	{"do_notify_parent do_exit", "proc.exit.notify", "-"},
	{"__schedule do_task_dead do_exit", "proc.exit", "-"},
	{"schedule do_wait kernel_wait4 __do_sys_wait4", "proc.reap", "child"},
	// exec
	{"unmap_page_range exit_mmap __mmput begin_new_exec load_elf_binary bprm_execve", "proc.exec.mm", "-"},
	{"wait_for_completion stop_one_cpu sched_exec bprm_execve do_execveat_common.isra.0", "proc.exec.migrate", "stopper"},
	{"relocate_vma_down setup_arg_pages load_elf_binary bprm_execve", "proc.exec", "-"},
	{"vm_mmap_pgoff elf_load load_elf_binary bprm_execve", "proc.exec", "-"},
	{"do_open_execat alloc_bprm do_execveat_common.isra.0 __x64_sys_execve", "proc.exec", "-"},
	// namespaces
	{"ops_init setup_net copy_net_ns create_new_namespaces copy_namespaces copy_process kernel_clone", "ns.net", "-"},
	{"__mutex_lock rtnl_lock register_netdev loopback_net_init ops_init setup_net copy_net_ns ksys_unshare", "ns.net", "lock.mutex"},
	{"clone_mnt copy_tree copy_mnt_ns create_new_namespaces ksys_unshare", "ns.mnt", "-"},
	{"copy_pid_ns create_new_namespaces", "ns.pid", "-"},
	{"mq_init_ns copy_ipcs create_new_namespaces", "ns.ipc", "-"},
	{"copy_utsname create_new_namespaces", "ns.uts", "-"},
	{"create_user_ns unshare_userns ksys_unshare", "ns.user", "-"},
	{"copy_cgroup_ns create_new_namespaces", "ns.cgroup", "-"},
	{"copy_time_ns create_new_namespaces", "ns.time", "-"},
	{"kmem_cache_alloc create_new_namespaces ksys_unshare", "ns.create", "-"},
	{"mntns_install __do_sys_setns", "ns.join", "-"},
	// spawn
	{"schedule_timeout __wait_for_common wait_for_completion_state kernel_clone __do_sys_clone", "proc.vfork", "vfork"},
	{"kernel_clone __do_sys_clone3", "proc.vfork", "vfork"},
	{"copy_page_range dup_mmap copy_process kernel_clone", "proc.fork.mm", "-"},
	{"percpu_rwsem_wait __percpu_down_read cgroup_can_fork copy_process kernel_clone", "proc.fork.cgroup", "lock.percpu_rwsem"},
	{"dup_fd copy_process kernel_clone", "proc.fork", "-"},
	{"schedule_tail ret_from_fork", "proc.fork", "-"},
	// mounts
	{"ovl_workdir_create ovl_fill_super vfs_get_tree path_mount __x64_sys_mount", "mount.overlay", "-"},
	{"synchronize_rcu_expedited namespace_unlock path_umount __x64_sys_umount", "mount.umount", "rcu.expedited"},
	{"synchronize_rcu_expedited kern_unmount_array ovl_free_fs deactivate_locked_super cleanup_mnt task_work_run exit_to_user_mode_loop", "mount.umount", "rcu.expedited"},
	{"wb_wait_for_completion sync_inodes_sb sync_filesystem ovl_sync_fs generic_shutdown_super cleanup_mnt task_work_run", "mount.umount", "writeback"},
	{"chroot_fs_refs __do_sys_pivot_root", "mount.pivot", "-"},
	{"vfs_get_tree vfs_cmd_create __do_sys_fsconfig", "mount.new", "-"},
	{"shmem_fill_super get_tree_nodev vfs_get_tree fc_mount path_mount __x64_sys_mount", "mount.new", "-"},
	// cgroups
	{"css_populate_dir cgroup_apply_control_enable cgroup_mkdir kernfs_iop_mkdir vfs_mkdir do_mkdirat", "cgroup.create", "-"},
	{"cgroup_destroy_locked cgroup_rmdir kernfs_iop_rmdir vfs_rmdir do_rmdir", "cgroup.remove", "-"},
	{"synchronize_rcu_normal rcu_sync_enter percpu_down_write cgroup_procs_write_start __cgroup1_procs_write.constprop.0 cgroup_file_write kernfs_fop_write_iter vfs_write ksys_write", "cgroup.attach", "rcu.normal"},
	{"cgroup_subtree_control_write cgroup_file_write kernfs_fop_write_iter vfs_write ksys_write", "cgroup.config", "-"},
	// network configuration
	{"synchronize_rcu_expedited netif_set_real_num_tx_queues veth_init_queues veth_newlink rtnl_newlink netlink_rcv_skb netlink_sendmsg", "net.link.create", "rcu.expedited"},
	{"rcu_barrier __dev_change_net_namespace do_setlink.isra.0 rtnl_setlink rtnetlink_rcv_msg netlink_sendmsg __sys_sendto", "net.link.move_ns", "rcu.barrier"},
	{"rcu_barrier netdev_run_todo rtnl_dellink rtnetlink_rcv_msg netlink_sendmsg", "net.link.delete", "rcu.barrier"},
	{"synchronize_rcu_expedited unregister_netdevice_many_notify rtnl_dellink rtnetlink_rcv_msg", "net.link.delete", "rcu.expedited"},
	{"br_add_if br_add_slave do_set_master do_setlink.isra.0 rtnl_setlink", "net.bridge", "-"},
	{"veth_open __dev_open __dev_change_flags netif_change_flags do_setlink.isra.0 rtnl_newlink", "net.link.set", "-"},
	{"__inet_insert_ifa inet_rtm_newaddr rtnetlink_rcv_msg", "net.addr", "-"},
	{"fib_table_insert inet_rtm_newroute rtnetlink_rcv_msg", "net.route", "-"},
	{"rtnl_getlink rtnetlink_rcv_msg netlink_rcv_skb netlink_sendmsg", "net.query", "-"},
	{"ctnetlink_get_conntrack nfnetlink_rcv_msg netlink_rcv_skb nfnetlink_rcv netlink_sendmsg", "net.conntrack", "-"},
	{"nf_tables_commit nfnetlink_rcv_batch nfnetlink_rcv netlink_sendmsg", "net.nft", "-"},
	{"__flush_work nft_rcv_nl_event blocking_notifier_call_chain netlink_release sock_close __fput", "net.nft", "work"},
	{"do_ipt_set_ctl nf_setsockopt ip_setsockopt", "net.iptables", "-"},
	// security
	{"bpf_prog_create_from_user do_seccomp __x64_sys_seccomp", "security.seccomp", "-"},
	{"commit_creds __do_sys_capset", "security.caps", "-"},
	{"apparmor_setprocattr security_setprocattr proc_pid_attr_write vfs_write ksys_write", "security.lsm", "-"},
	{"join_session_keyring __do_sys_keyctl", "security.keyring", "-"},
	{"bpf_check bpf_prog_load __sys_bpf", "bpf.load", "-"},
	// storage
	{"io_schedule folio_wait_bit_common folio_wait_writeback __filemap_fdatawait_range file_write_and_wait_range ext4_sync_file do_fsync", "io.fsync", "disk"},
	{"jbd2_log_wait_commit ext4_sync_file do_fsync __x64_sys_fdatasync", "io.fsync", "journal"},
	{"submit_bio_wait blkdev_issue_flush ext4_sync_file do_fsync", "io.fsync", "disk"},
	{"iter_file_splice_write splice_direct_to_actor vfs_copy_file_range", "io.copy", "-"},
	{"submit_bio_wait blkdev_issue_discard ext4_free_blocks ext4_truncate ext4_evict_inode evict do_unlinkat", "io.unlink", "disk"},
	// communication
	{"schedule anon_pipe_read vfs_read ksys_read", "ipc.pipe", "pipe"},
	{"pipe_write vfs_write ksys_write", "ipc.pipe", "pipe"},
	{"schedule_timeout unix_stream_read_generic unix_stream_recvmsg sock_recvmsg", "ipc.unix", "socket"},
	{"wait_woken sk_wait_data tcp_recvmsg_locked tcp_recvmsg", "ipc.tcp", "socket"},
	{"inet_csk_accept inet_accept do_accept", "ipc.tcp", "socket"},
	{"wait_woken vsock_connectible_recvmsg", "ipc.vsock", "socket"},
	{"netlink_recvmsg sock_recvmsg", "ipc.netlink", "socket"},
	{"futex_do_wait __futex_wait futex_wait do_futex __x64_sys_futex", "ipc.futex", "futex"},
	{"eventfd_read vfs_read ksys_read", "ipc.eventfd", "eventfd"},
	{"ep_poll do_epoll_wait __x64_sys_epoll_pwait", "wait.epoll", "epoll"},
	{"schedule_hrtimeout_range poll_schedule_timeout.constprop.0 do_sys_poll __x64_sys_ppoll", "wait.poll", "poll"},
	{"io_cqring_wait __do_sys_io_uring_enter", "wait.iouring", "iouring"},
	{"do_nanosleep hrtimer_nanosleep common_nsleep __x64_sys_clock_nanosleep", "wait.sleep", "timer"},
	{"do_sigtimedwait __x64_sys_rt_sigtimedwait", "wait.signal", "signal"},
	{"kvm_vcpu_block kvm_vcpu_halt kvm_arch_vcpu_ioctl_run kvm_vcpu_ioctl", "vm.kvm", "guest"},
	// memory and files
	{"io_schedule folio_wait_bit_common filemap_fault __do_fault do_fault handle_mm_fault exc_page_fault asm_exc_page_fault", "fault.disk", "disk"},
	{"filemap_map_pages do_fault handle_mm_fault exc_page_fault", "fault.file", "-"},
	{"do_wp_page handle_mm_fault exc_page_fault", "fault.cow", "-"},
	{"do_anonymous_page handle_mm_fault exc_page_fault", "fault.anon", "-"},
	{"lock_vma_under_rcu exc_page_fault", "fault.other", "-"},
	{"vfs_unlink do_unlinkat __x64_sys_unlinkat", "io.unlink", "-"},
	{"path_openat do_filp_open do_sys_openat2", "io.open", "-"},
	{"generic_perform_write ext4_file_write_iter vfs_write ksys_write", "io.write", "-"},
	{"filemap_read ext4_file_read_iter vfs_read ksys_read", "io.read", "-"},
	{"vfs_statx vfs_fstatat __do_sys_newfstatat", "io.stat", "-"},
	{"iterate_dir __x64_sys_getdents64", "io.dir", "-"},
	{"do_mmap vm_mmap_pgoff ksys_mmap_pgoff", "mm.map", "-"},
	{"filp_close __x64_sys_close", "io.close", "-"},
	{"worker_thread kthread ret_from_fork", "worker.idle", "-"},
}

func TestStacks(t *testing.T) {
	s := mustLoad(t, "linux")
	w := newWorld()
	var ids []tracer.StackID
	for _, c := range stacks {
		ids = append(ids, w.kernelStack(append(strings.Fields(c.frames), "entry_SYSCALL_64_after_hwframe")...))
	}
	task := w.process("x", "", "/x x")
	m := s.Bind(w.Trace())
	for i, c := range stacks {
		sit := Situation{Actor: m.Actor(task, 1), Stack: ids[i], State: tracer.StateBlocked, Phase: PhaseRunning}
		sit.Wait = m.Wait(ids[i], 0, 0, 0)
		if got := s.text(m.Stage(&sit)); got != c.stage {
			t.Errorf("%s: stage %s, want %s", c.frames, got, c.stage)
		}
		if got := s.waitText(sit.Wait); got != c.wait {
			t.Errorf("%s: wait %s, want %s", c.frames, got, c.wait)
		}
	}
}

// A running task under the tracer's programs is the tracer's, a sleeping one
// is not: every stack taken at a switch ends in them.
func TestTracerOverhead(t *testing.T) {
	s := mustLoad(t, "linux")
	w := newWorld()
	stack := w.kernelStack("bpf_trace_run4", "__traceiter_sched_switch", "__schedule", "schedule", "do_fsync")
	m := s.Bind(w.Trace())
	for state, want := range map[tracer.TaskState]string{tracer.StateRunning: "tracer.overhead", tracer.StateBlocked: "io.fsync"} {
		if got := s.text(m.Stage(&Situation{Stack: stack, State: state, Wait: NoWait, Phase: PhaseRunning})); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
}

// A wait without frames is told by the task's state, its locks, its call.
func TestWaitWithoutFrames(t *testing.T) {
	s := mustLoad(t, "linux")
	w := newWorld()
	stack, disk := w.kernelStack("do_epoll_wait"), w.kernelStack("folio_wait_bit", "folio_wait_writeback", "ext4_sync_file", "do_fsync")
	calls := map[string]tracer.StringID{}
	for _, c := range strings.Fields("futex epoll_wait wait4 nanosleep read getpid recvmsg") {
		calls[c] = w.String(c)
	}
	mutex := w.String("mutex")
	m := s.Bind(w.Trace())
	lock := m.Spans(0, tracer.ClassLock, mutex, 0)
	inFutex := m.Spans(0, tracer.ClassSyscall, calls["futex"], 0)
	for _, c := range []struct {
		stack tracer.StackID
		call  string
		spans SpansID
		flags tracer.Flags
		want  string
	}{
		{0, "futex", 0, 0, "futex"},
		{0, "epoll_wait", 0, 0, "epoll"},
		{0, "wait4", 0, tracer.FlagUninterruptible, "child"},
		{0, "nanosleep", 0, 0, "timer"},
		{0, "read", 0, 0, "read"},
		{0, "recvmsg", 0, 0, "socket"},
		{0, "read", 0, tracer.FlagIOWait, "disk"},
		{stack, "read", 0, tracer.FlagIOWait, "epoll"},
		{stack, "", 0, tracer.FlagStopped, "stopped"},
		{stack, "", 0, tracer.FlagTraced | tracer.FlagIOWait, "traced"},
		{0, "read", lock, 0, "lock.mutex"},
		{disk, "fsync", lock, 0, "disk"},
		{0, "", inFutex, 0, "futex"},
		{0, "getpid", 0, 0, "-"},
		{0, "", 0, 0, "-"},
	} {
		for range 2 { // the second answer is remembered
			if got := s.waitText(m.Wait(c.stack, calls[c.call], c.spans, c.flags)); got != c.want {
				t.Errorf("%+v: %s", c, got)
			}
		}
	}
}
