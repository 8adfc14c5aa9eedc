package reports

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

func parseProfile(t *testing.T, format string, in *Input) *profile.Profile {
	t.Helper()
	p, err := profile.ParseData(render(t, format, in))
	if err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return p
}

func profileAsText(t *testing.T, data []byte) []byte {
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(p.String())
}

func TestWallProfileSums(t *testing.T) {
	f := newFixture(5)
	p := parseProfile(t, "pprof", f.input())
	if p.DefaultSampleType != "path" || len(p.SampleType) != len(wallTypes) {
		t.Errorf("types %v", p.SampleType)
	}
	var wall, got int64
	byOp, byStage := map[int64]int64{}, map[string]int64{}
	var states [3]int64
	for _, op := range f.ops {
		wall += op.WallNs
	}
	for _, s := range p.Sample {
		got += s.Value[valuePath]
		byOp[s.NumLabel["op"][0]] += s.Value[valuePath]
		byStage[s.Label["stage"][0]] += s.Value[valuePath]
		for i := range states {
			states[i] += s.Value[valueRunning+i]
		}
	}
	if got != wall || p.DurationNanos != wall || states[0]+states[1]+states[2] != wall {
		t.Errorf("path %d, duration %d, states %v; wall %d", got, p.DurationNanos, states, wall)
	}
	want := map[string]int64{}
	for _, op := range f.ops {
		if byOp[int64(op.Index)] != op.WallNs {
			t.Errorf("operation %d: %d of %d", op.Index, byOp[int64(op.Index)], op.WallNs)
		}
		for _, st := range op.Stages {
			want[st.Name] += st.Ns
		}
	}
	for name, ns := range want {
		if byStage[name] != ns {
			t.Errorf("stage %s: %d, want %d", name, byStage[name], ns)
		}
	}
}

func TestWallProfileStacks(t *testing.T) {
	f := newFixture(1)
	p := parseProfile(t, "pprof", f.input())
	var found bool
	for _, s := range p.Sample {
		if s.Label["wait"] == nil || s.Label["wait"][0] != "rcu.barrier" || s.Label["target"][0] != "runc" {
			continue
		}
		found = true
		var names []string
		for i := len(s.Location) - 1; i >= 0; i-- {
			names = append(names, s.Location[i].Line[0].Function.Name)
		}
		want := `operation runc|trace|client|main.run|client+0x99|daemon|[thread] two\x0alines\u{202e}evil\xff|client+0x99|main.run|copy_net_ns`
		if got := strings.Join(names, "|"); got != want {
			t.Errorf("stack\n%s, want\n%s", got, want)
		}
		leaf := s.Location[0]
		if leaf.Mapping.File != kernelObject || !leaf.Mapping.HasFunctions || leaf.Address != 0xffffffff81000010 {
			t.Errorf("leaf %+v of %+v", leaf, leaf.Mapping)
		}
		if m := s.Location[1].Mapping; m.BuildID != "beef01" || m.File != "/usr/bin/client" || m.Limit <= 0x1234 {
			t.Errorf("mapping %+v", m)
		}
	}
	if !found {
		t.Error("no sample waits for RCU")
	}
	var off int64
	for _, s := range p.Sample {
		off += s.Value[valueOffPath]
	}
	if want := int64(2 * (10 + 500*1000)); off != want {
		t.Errorf("off path %d, want %d", off, want)
	}
}

func TestBrokenPathIsAnError(t *testing.T) {
	f := newFixture(1)
	f.ops[0].WallNs++
	for _, name := range []string{"pprof", "folded"} {
		format, _ := Lookup(name)
		if err := format.Write(&bytes.Buffer{}, f.input()); err == nil || !strings.Contains(err.Error(), "covers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Links that point at themselves or forward must end.
func TestDamagedLinks(t *testing.T) {
	f := newFixture(1)
	f.ops[0].Path.Links[0].Parent = 1
	f.ops[0].Path.Links[1].Parent = 1
	f.ops[1].Path.Segments[0].Link = 99
	f.ops[1].Path.Segments[0].Task = 99
	f.ops[1].Path.Segments[0].Stack = 99
	for _, format := range Formats() {
		render(t, format.Name, f.input())
	}
}

func TestFoldedSums(t *testing.T) {
	f := newFixture(4)
	var wall, got int64
	for _, op := range f.ops {
		wall += op.WallNs
	}
	grammar := regexp.MustCompile(`^[^; ]+(;[^; ]+)* ([0-9]+)$`)
	for _, l := range strings.Split(strings.TrimSpace(string(render(t, "folded", f.input()))), "\n") {
		m := grammar.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("line %q", l)
		}
		n, _ := strconv.ParseInt(m[2], 10, 64)
		got += n
	}
	if got != wall {
		t.Errorf("%d of %d", got, wall)
	}
	if text := string(render(t, "folded", f.input())); !strings.Contains(text, "[warning];Lost:_12_events") {
		t.Error("what was lost is not said")
	}
}

func TestCPUProfileScope(t *testing.T) {
	f := newFixture(1)
	op := f.ops[0]
	tr := *op.Trace
	tr.Tasks = append(tr.Tasks,
		tracer.Task{TID: 201, PID: 201, Leader: 6, Parent: 2, Born: op.Begin + 10, Comm: "child"},
		tracer.Task{TID: 999, PID: 999, Leader: 7, Parent: -1, Comm: "stranger"},
		tracer.Task{TID: 101, PID: 100, Leader: 1, Parent: 1, Born: op.Begin + 20, Comm: "reader", Tracer: true})
	sample := func(at tracer.Time, task tracer.TaskID) tracer.Event {
		return tracer.Event{Time: at, Kind: tracer.KindSample, Task: task, Value: 10_000, Stack: 1}
	}
	tr.Events = []tracer.Event{
		sample(op.Begin-5, 1), // before
		{Time: op.Begin, Kind: tracer.KindOpBegin, Task: 1},
		sample(op.Begin+1, 1),   // on the path: the driver
		sample(op.Begin+300, 6), // descendant, off the path
		sample(op.Begin+310, 7), // stranger
		sample(op.Begin+320, 8), // tracer
		sample(op.Begin+330, 0), // idle
		{Time: op.End, Kind: tracer.KindOpEnd, Task: 1},
		sample(op.End+10, 1), // the driver goes on
		sample(op.End+20, 5), // late teardown
		{Time: op.End + 2000, Kind: tracer.KindOpBegin, Task: 1},
		sample(op.End+2010, 6), // the next operation's time
	}
	op.Trace = &tr
	in := &Input{Result: f.result, Operations: func(yield func(*analysis.Operation) error) error { return yield(op) }}
	p := parseProfile(t, "pprof-cpu", in)
	var n, ns int64
	var where []string
	for _, s := range p.Sample {
		n += s.Value[0]
		ns += s.Value[1]
		where = append(where, s.Label["process"][0]+" "+s.Label["path"][0]+" "+strings.Join(s.Label["stage"], ""))
	}
	if want := "trace on other, client off , [kworker] off netns.cleanup"; n != 3 || ns != 30_000 || strings.Join(where, ", ") != want {
		t.Errorf("%d samples, %d ns: %q", n, ns, where)
	}
}

// What users run.
func TestGoToolPprof(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to run pprof with")
	}
	file := filepath.Join(t.TempDir(), "wall.pb.gz")
	if err := os.WriteFile(file, render(t, "pprof", newFixture(3).input()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-top", "-sample_index=path"}, "copy_net_ns"},
		{[]string{"-top", "-tagroot", "stage"}, "net.link.move_ns"},
		{[]string{"-tags"}, "rcu.barrier"},
		{[]string{"-top", "-sample_index=offpath"}, "cleanup_net"},
	} {
		out, err := exec.Command(goTool, append(append([]string{"tool", "pprof", "-symbolize=none"}, c.args...), file)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("pprof %v: %v\n%s", c.args, err, out)
		}
		if bytes.IndexByte(out, 0x1b) >= 0 {
			t.Errorf("pprof %v prints escape sequences", c.args)
		}
	}
}

// A segment inside a work item is under the item's name.
func TestWorkItemFrames(t *testing.T) {
	f := newFixture(1)
	op := f.ops[0]
	op.Match = op.Set.Bind(op.Trace)
	seg := &op.Path.Segments[4]
	seg.Spans = op.Match.Spans(op.Match.Spans(0, tracer.ClassWork, 6, 0), tracer.ClassSyscall, 5, 0)
	if text := string(render(t, "folded", f.input())); !strings.Contains(text, ";[kworker];[work]_cleanup_net ") {
		t.Errorf("no work item:\n%s", text)
	}
}

func TestTaskNames(t *testing.T) {
	tr := &tracer.Trace{Tasks: []tracer.Task{
		{},
		{TID: 1, PID: 1, Leader: 1, Parent: -1, Comm: "bash", Images: []tracer.Image{{Exe: "/bin/bash", Comm: "bash"}}},
		{TID: 2, PID: 2, Leader: 2, Parent: 1, Born: 10, Comm: "ls", Images: []tracer.Image{{Time: 20, Exe: "/bin/ls (deleted)", Comm: "ls"}}},
		{TID: 3, PID: 2, Leader: 2, Parent: 2, Born: 30, Comm: "worker"},
		{TID: 4, PID: 4, Leader: 4, Parent: -1, Comm: "exe", Images: []tracer.Image{{Exe: "/memfd:x (deleted)", Comm: "exe", Argv: []string{"/usr/bin/runc"}}}},
		{TID: 5, PID: 5, Leader: 5, Parent: -1, Comm: "rcu_sched", Kernel: true},
		{TID: 6, PID: 6, Leader: 6, Parent: 7, Born: 1, Comm: "loop"},
		{TID: 7, PID: 7, Leader: 7, Parent: 6, Born: 1, Comm: "loop"},
		{TID: 8, PID: 8, Leader: 8, Parent: -1},
	}}
	for _, c := range []struct {
		id              tracer.TaskID
		at              tracer.Time
		process, thread string
	}{
		{0, 5, "[idle]", ""}, {-1, 5, "[unknown]", ""}, {99, 5, "[unknown]", ""},
		{1, 5, "bash", ""}, {2, 15, "bash", ""}, {2, 25, "ls", ""}, {3, 40, "ls", "worker"},
		{4, 5, "runc", ""}, {5, 5, "[rcu_sched]", ""}, {6, 5, "loop", ""}, {8, 5, "(unknown)", ""},
	} {
		process, thread := taskNames(tr, c.id, c.at)
		if process != c.process || thread != c.thread {
			t.Errorf("task %d at %d: %q %q, want %q %q", c.id, c.at, process, thread, c.process, c.thread)
		}
	}
}
