package analysis

// Result is the document that a run leaves (result.json): what was measured
// and where it went. Times are integers in nanoseconds. reports renders it,
// Compare compares two.
type Result struct {
	Schema     int               `json:"schema"`
	Tool       string            `json:"tool"`
	Label      string            `json:"label,omitempty"`
	Started    string            `json:"started"` // RFC 3339, UTC
	Host       Host              `json:"host"`
	Workload   string            `json:"workload"`
	Command    []string          `json:"command,omitempty"`
	Params     map[string]string `json:"params"`
	StageSet   StageSet          `json:"stage_set"`
	Units      string            `json:"units"`
	Recording  RecordingFacts    `json:"recording"`
	Operations []OperationResult `json:"operations"`
	Untraced   []UntracedResult  `json:"untraced"`
	Metrics    []MetricResult    `json:"metrics,omitempty"` // of operations, traced or not, that did not fail
	Summary    []Summary         `json:"summary"`
	Imported   []Imported        `json:"imported,omitempty"` // measured elsewhere, to stand beside Summary
	Totals     Totals            `json:"totals"`
	Processes  []Process         `json:"processes"`
	Warnings   []Warning         `json:"warnings"`
}

// Host is where it was measured.
type Host struct {
	Name    string `json:"name"`
	Kernel  string `json:"kernel"`
	OS      string `json:"os"`
	Machine string `json:"machine"`
	CPUs    int    `json:"cpus"`
	CPU     string `json:"cpu,omitempty"`
	Memory  uint64 `json:"memory_bytes,omitempty"`
}

// StageSet names the rules; compare warns when they differ.
type StageSet struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
}

// RecordingFacts says how the recording was made and what it cost.
type RecordingFacts struct {
	Backend      string   `json:"backend"`
	Probes       []string `json:"probes"`
	Events       int64    `json:"events"`
	Samples      int64    `json:"samples"`
	Blocks       int      `json:"blocks"`
	ProgramRunNs int64    `json:"program_run_ns"` // time in the tracer's own kernel programs, whole recording; 0 unknown
	RecordedNs   int64    `json:"recorded_ns"`    // how long anything was attached
	Notes        []string `json:"notes,omitempty"`
}

// OperationResult is one traced operation. The ns of its Stages sum to WallNs.
type OperationResult struct {
	Target     string         `json:"target"`
	Index      int            `json:"index"` // from 1, over the whole run
	WallNs     int64          `json:"wall_ns"`
	Units      int            `json:"units"`
	Failed     bool           `json:"failed"`
	ExitCode   int            `json:"exit_code"`
	LostEvents uint64         `json:"lost_events"`
	Incomplete bool           `json:"incomplete"`
	First      bool           `json:"first,omitempty"` // the first operation of its target, shown apart
	Stages     []StageResult  `json:"stages"`
	OffPath    []OffPathStage `json:"off_path"`

	Functions []FunctionResult `json:"functions,omitempty"` // user functions that were probed

	WhatIf     *OperationWhatIf `json:"what_if,omitempty"`
	CannotTell bool             `json:"cannot_tell,omitempty"` // its replay failed: there is no WhatIf
}

// StageResult is what one stage took on the path of one operation.
type StageResult struct {
	Name       string           `json:"name"`
	Ns         int64            `json:"ns"` // running + runnable + blocked
	RunningNs  int64            `json:"running_ns"`
	RunnableNs int64            `json:"runnable_ns"`
	BlockedNs  int64            `json:"blocked_ns"`
	Count      int64            `json:"count"`           // times the path entered it
	Waits      map[string]int64 `json:"waits,omitempty"` // blocked, by wait reason; of runnable time what strangers and the tracer took
}

// FunctionResult is the calls of one user function in one operation, on the path
// or not.
type FunctionResult struct {
	Name  string `json:"name"`
	Calls int64  `json:"calls"`
	Ns    int64  `json:"ns"` // in all calls, with what they called and what probing cost
}

// OffPathStage is work the operation caused and did not wait for.
type OffPathStage struct {
	Name       string `json:"name"`
	Ns         int64  `json:"ns"`
	CPUNs      int64  `json:"cpu_ns"`
	Count      int64  `json:"count"`
	AfterEndNs int64  `json:"after_end_ns"` // the part of Ns after the operation's end
}

// UntracedResult is one operation measured with nothing attached.
type UntracedResult struct {
	Target   string `json:"target"`
	WallNs   int64  `json:"wall_ns"`
	Index    int    `json:"index"`
	Failed   bool   `json:"failed"`
	ExitCode int    `json:"exit_code"`
	First    bool   `json:"first,omitempty"`
}

// MetricResult is a figure of one operation beside its time: memory, bytes, a rate.
type MetricResult struct {
	Target string  `json:"target"`
	Index  int     `json:"index"`
	Name   string  `json:"name"`
	Unit   string  `json:"unit"` // "B", "B/s", "ns", "1/s", "ratio"; "" a count
	Value  float64 `json:"value"`
	Traced bool    `json:"traced"`
}

// Distribution summarises n values; pointers are null where n is too small.
type Distribution struct {
	N      int      `json:"n"`
	Median float64  `json:"median"`
	Lo     *float64 `json:"lo"` // interval of the median
	Hi     *float64 `json:"hi"`
	P95    float64  `json:"p95"` // nearest rank; the maximum when N < 20
	P99    float64  `json:"p99"` // the maximum when N < 100
	Min    float64  `json:"min"`
	Max    float64  `json:"max"`
	Mean   float64  `json:"mean"`
	Stddev *float64 `json:"stddev"`
}

// Imported is the statistics of a target that was not measured in this run.
type Imported struct {
	Target string       `json:"target"`
	From   string       `json:"from"`           // the file that it was read from
	Host   string       `json:"host,omitempty"` // where it was measured, when the file says so
	Wall   Distribution `json:"wall"`
}

// Summary is the statistics of one target.
type Summary struct {
	Target    string         `json:"target"`
	N         int            `json:"n"`          // traced operations that count
	Wall      Distribution   `json:"wall"`       // end to end: untraced operations, or the traced ones when there are none
	FirstNs   int64          `json:"first_ns"`   // wall of the target's very first operation, warm-ups included
	ColdFirst bool           `json:"cold_first"` // the first one is a cold start and not in the statistics
	Untraced  bool           `json:"untraced"`   // Wall comes from untraced operations
	Traced    Distribution   `json:"traced"`     // wall of the traced operations, which the stages add up to
	Stages    []StageSummary `json:"stages"`     // by falling median; the ones of the path
	OffPath   []StageSummary `json:"off_path"`
	Overhead  *Overhead      `json:"overhead"` // null when there is nothing to compare with
	WhatIf    *WhatIf        `json:"what_if,omitempty"`

	Metrics []MetricSummary `json:"metrics,omitempty"` // in the order in which the workload gives them
}

// MetricSummary is a figure of a target's operations beside their time.
type MetricSummary struct {
	Name   string       `json:"name"`
	Unit   string       `json:"unit"`
	Traced bool         `json:"traced"` // of traced operations, since no untraced one has it
	Value  Distribution `json:"value"`
}

// StageSummary is one row of the table. Times are medians over operations
// (0 in an operation that has no such stage).
type StageSummary struct {
	Name       string           `json:"name"`
	Title      string           `json:"title"`
	Median     float64          `json:"median"`
	Lo         *float64         `json:"lo"`
	Hi         *float64         `json:"hi"`
	Mean       float64          `json:"mean"`
	Share      float64          `json:"share"` // of the traced wall time, by sums: the shares of a target add up to 1
	RunningNs  float64          `json:"running_ns"`
	RunnableNs float64          `json:"runnable_ns"`
	BlockedNs  float64          `json:"blocked_ns"`
	CPUNs      float64          `json:"cpu_ns"`       // off path
	AfterEndNs float64          `json:"after_end_ns"` // off path
	OffPathNs  float64          `json:"off_path_ns"`  // same stage, off the path
	Count      float64          `json:"count"`
	Waits      map[string]int64 `json:"waits,omitempty"` // mean ns per operation by wait reason
}

// Overhead is what tracing cost: the traced median over the untraced one.
type Overhead struct {
	Ratio float64  `json:"ratio"`
	Lo    *float64 `json:"lo"`
	Hi    *float64 `json:"hi"`
}

// Totals are of the whole run (counts) or medians per traced operation.
type Totals struct {
	Failed           int      `json:"failed"`
	LostEvents       uint64   `json:"lost_events"`
	Incomplete       bool     `json:"incomplete"`
	ExitCode         int      `json:"exit_code"`
	Processes        int      `json:"processes"`
	Execs            int      `json:"execs"`
	Threads          int      `json:"threads"`
	Samples          int64    `json:"samples"`
	LostStacks       int64    `json:"lost_stacks"`
	UnknownFramesPct float64  `json:"unknown_frames_pct"`
	OnCPUNs          int64    `json:"on_cpu_ns"`
	RunQueueNs       int64    `json:"run_queue_ns"`
	BlockedNs        int64    `json:"blocked_ns"`
	OffPathNs        int64    `json:"off_path_ns"`
	WallStddevNs     *float64 `json:"wall_stddev_ns"`
}

// Process is one process that took part in an operation: descendants of the
// driver, and everything on a path.
type Process struct {
	PID         int32    `json:"pid"`
	NSPID       int32    `json:"ns_pid"`
	Comm        string   `json:"comm"`
	Exe         string   `json:"exe"`
	Argv        []string `json:"argv"`
	Truncated   bool     `json:"truncated"`
	ContainerID string   `json:"container_id"`
	Parent      int32    `json:"parent"`
	Role        string   `json:"role"`
}

// Warning is something the reader must know, and what to do about it.
type Warning struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}
