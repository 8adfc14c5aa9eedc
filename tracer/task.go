package tracer

// Image is a program that a process ran, from Time until its next image or
// its end. Captured in the kernel at exec, so a process that lived for a
// microsecond has it.
type Image struct {
	Time Time     // of the exec; for a process older than the trace, 0
	Exe  string   // path of the executable's dentry, not argv[0]
	Comm string   // the kernel's 15-byte name right after the exec
	Argv []string // as far as it was captured
	Cut  bool     // Argv is longer than what was captured
}

// Task is one thread of execution: user thread or kernel thread.
type Task struct {
	TID    int32 // in the initial pid namespace
	PID    int32 // thread group id, likewise
	NSPID  int32 // the process's id in its own pid namespace (equals PID outside of containers; 0 unknown)
	Start  Time  // the kernel's start_time: with TID, the identity
	Leader TaskID
	Parent TaskID  // the task that forked it; NoTask when unknown
	Born   Time    // when its fork was seen; 0 when it is older than the trace
	Comm   string  // the last name seen
	Kernel bool    // a kernel thread
	Tracer bool    // a thread of the tracing process that does tracing, not the operation
	Cgroup string  // path of its cgroup (v2, or the most telling v1 controller), as far as known
	Images []Image // of a process: on its leader only, in time order
}

// TaskKey is a task's identity outside of a trace.
type TaskKey struct {
	TID   int32
	Start Time
}
