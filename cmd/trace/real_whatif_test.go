//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/analysis/stats"
	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

// replayed is a recorded operation, and how long it would have taken.
type replayed struct {
	target     string
	begin, end tracer.Time
	wall, then float64 // ns
}

// replay gives the operations of a recording in a scenario, in their order.
// What was lost in is left out.
func (r *realRun) replay(t *testing.T, set *stage.Set, scenario string) (ops []replayed) {
	t.Helper()
	sc, err := analysis.ParseScenario(set, scenario)
	if err != nil {
		t.Fatal(err)
	}
	an := analysis.New(set, withWhatIf(analysis.Options{}, sc))
	_, err = readRecording(filepath.Join(r.dir, eventsFile), noEntry, func(tr *tracer.Trace) error {
		return an.Add(tr, func(op *analysis.Operation) error {
			switch {
			case op.CannotTell:
				t.Errorf("operation %d: its replay does not end when it did", op.Index)
			case !op.Warmup && !op.Incomplete:
				ops = append(ops, replayed{op.Target, op.Begin, op.End, float64(op.WallNs), float64(op.WhatIf.Scenario.WallNs)})
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

// reality is a part of operations that was really left out of some of them.
type reality struct {
	name, scenario string
	wall           []float64 // with the part
	predicted      []float64 // gain of each of these
	measured       []float64 // gain of one without over the one before it
	busy           bool      // others had the CPUs: what a part costs there is up to the scheduler, too
}

// whatIfError is how far a predicted gain may be off, as part of the operation.
const whatIfError = 0.10

// off is the difference of the gains in the middle, as part of the operation in
// the middle; surely is what of it is no chance: the distance from the predicted
// gain to the interval of the measured one.
func (x *reality) off() (middle, surely float64) {
	m, wall, predicted := stats.Describe(x.measured), stats.Median(x.wall), stats.Median(x.predicted)
	middle = math.Abs(predicted-m.Median) / wall
	if m.Lo == nil || m.Hi == nil {
		return middle, middle
	}
	return middle, max(*m.Lo-predicted, predicted-*m.Hi, 0) / wall
}

func (x *reality) row() string {
	ms := func(v []float64) float64 { return stats.Median(v) / 1e6 }
	interval := ""
	if m := stats.Describe(x.measured); m.Lo != nil && m.Hi != nil {
		interval = fmt.Sprintf("%.2f .. %.2f", *m.Lo/1e6, *m.Hi/1e6)
	}
	middle, surely := x.off()
	return fmt.Sprintf("%-19s %-35s %8.2f %10.2f %9.2f %16s %7.1f %% %7.1f %% %4d", x.name, x.scenario, ms(x.wall), ms(x.predicted), ms(x.measured), interval, 100*middle, 100*surely, len(x.wall))
}

const realityHead = "without             what if                             with, ms  predicted  measured    95 % interval    off by    surely    n"

// whatIfPairs is from how many pairs of operations something is concluded.
const whatIfPairs = 8

// compare adds the operations of which one in each pair has the part.
func (x *reality) compare(with, without []replayed) {
	for i := range min(len(with), len(without)) {
		x.wall = append(x.wall, with[i].wall)
		x.predicted = append(x.predicted, with[i].wall-with[i].then)
		x.measured = append(x.measured, with[i].wall-without[i].wall)
	}
}

// TestRealWhatIf holds predicted gains against those of really leaving a part
// out, measured in the same run, interleaved. One operation proves nothing, and
// the middle of a few proves little: of three tries one must be right. Where
// others have the CPUs, every sleep that is left out also saves a wait for a CPU
// after the next one, which is up to the scheduler and not to be replayed: there
// a container's small parts are not judged.
func TestRealWhatIf(t *testing.T) {
	requireRecording(t)
	table := []string{realityHead}
	check := func(name string, try func(t *testing.T) []*reality) {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				bad, busy := false, false
				all := try(t)
				for _, x := range all {
					_, surely := x.off()
					bad, busy = bad || !(surely <= whatIfError) || len(x.wall) < whatIfPairs, busy || x.busy
				}
				if bad && n < 3 {
					t.Logf("try %d is off (busy machine: %v):\n%s\n%s", n, busy, realityHead, rows(all))
					continue
				}
				table = append(table, rows(all))
				switch {
				case bad && busy:
					t.Logf("the machine was busy at every try: nothing can be said of gains that small")
				case bad:
					t.Errorf("off in the middle of the operations by more than %.0f %% of one:\n%s\n%s", 100*whatIfError, realityHead, rows(all))
				}
				return
			}
		})
	}
	for _, p := range whatIfPrograms {
		check(p.mode, func(t *testing.T) []*reality { return []*reality{p.measure(t)} })
	}
	check("container", containerWithout)
	t.Logf("\n%s", strings.Join(table, "\n"))
}

func rows(all []*reality) string {
	lines := make([]string, len(all))
	for i, x := range all {
		lines[i] = x.row()
	}
	return strings.Join(lines, "\n")
}

// whatIfProgram is a mode of testdata/whatif.c; scenario takes out what the
// program leaves out itself every second time.
type whatIfProgram struct{ mode, scenario string }

var whatIfPrograms = []whatIfProgram{
	{"serial", "wait.sleep=0"}, {"branch", "wait.sleep=0"}, {"finished", "wait.poll=0"}, {"message", "wait.poll=0"},
}

// messagesSet records the messages on sockets beside what linux does.
const messagesSet = "set: messages\ntitle: Linux, and the messages on sockets\nuse: [linux]\nrecord: [messages]\nstages: []\n"

func (p whatIfProgram) measure(t *testing.T) *reality {
	t.Helper()
	dir := t.TempDir()
	program, lines, sets := filepath.Join(dir, "whatif"), filepath.Join(dir, "lines"), filepath.Join(dir, "messages.stages.yaml")
	_, err := exec.LookPath("cc")
	tracetest.Require(t, "cc", err)
	if out, err := exec.Command("cc", "-O2", "-Wall", "-Werror", "-o", program, "testdata/whatif.c").CombinedOutput(); err != nil {
		t.Fatalf("build testdata/whatif.c: %v\n%s", err, out)
	}
	if err := os.WriteFile(sets, []byte(messagesSet), 0o644); err != nil {
		t.Fatal(err)
	}
	r, res := measured(t, "--stages", sets, "--warmup", "2", "--runs", "24", "--untraced", "1", "--", program, lines, p.mode)
	checkSums(t, res)
	if p.mode == "message" && !slices.Contains(res.Recording.Probes, "sock_send_length") {
		t.Skip("this kernel does not tell of messages on sockets (Linux 6.4 does)")
	}
	set, err := loadStages([]string{sets}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var with, without []replayed
	notes := whatIfNotes(t, lines)
	for _, op := range r.replay(t, set, p.scenario) {
		i := slices.IndexFunc(notes, func(n whatIfNote) bool { return n.Begin > op.begin && n.Begin < op.end })
		switch {
		case i < 0:
			t.Fatalf("an operation from %d to %d in which nothing ran", op.begin, op.end)
		case notes[i].With:
			with = append(with, op)
		default:
			without = append(without, op)
		}
	}
	x := &reality{name: p.mode, scenario: p.scenario}
	x.compare(with, without)
	return x
}

// whatIfNote is what a run of testdata/whatif.c wrote.
type whatIfNote struct {
	Begin tracer.Time
	With  bool
}

func whatIfNotes(t *testing.T, file string) (notes []whatIfNote) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var n whatIfNote
		if err := json.Unmarshal(line, &n); err != nil {
			t.Fatal(err)
		}
		notes = append(notes, n)
	}
	return notes
}

// containerParts are what a start with the builtin engine can do without: a
// value in the name of a target, and what stands there without. How long the
// grace periods of a bridge take differs by more than what the other parts take,
// so these are looked at where there is no network.
var containerParts = []struct {
	name, scenario string
	at             int // in the parts of a target's name
	with, without  string
	network        string // "": any
}{
	{"container: network", "net.*=0,ipc.socket=0,ipc.netlink=0", 1, "bridge", "none", ""},
	{"container: cgroup", "cgroup.*=0,proc.fork.cgroup=0", 2, "on", "off", "none"},
	{"container: fsync", "state.persist=0,io.fsync=0", 3, "on", "off", "none"},
}

// containerWithout measures every combination of parts in one run.
func containerWithout(t *testing.T) (out []*reality) {
	t.Helper()
	r, res := measured(t, "--workload", "container-start", "--target", "builtin", "-p", "network=bridge,none", "-p", "cgroup=on,off", "-p", "fsync=on,off",
		"--warmup", "2", "--runs", "24", "--untraced", "1")
	checkSums(t, res)
	set, err := loadStages(nil, []string{"container"})
	if err != nil {
		t.Fatal(err)
	}
	busy := slices.ContainsFunc(res.Warnings, func(w analysis.Warning) bool { return w.ID == "busy-machine" })
	for _, part := range containerParts {
		byTarget := map[string][]replayed{}
		for _, op := range r.replay(t, set, part.scenario) {
			byTarget[op.target] = append(byTarget[op.target], op)
		}
		x := &reality{name: part.name, scenario: part.scenario, busy: busy}
		for _, target := range slices.Sorted(maps.Keys(byTarget)) {
			name := strings.Split(target, "/")
			if name[part.at] != part.with || part.network != "" && name[1] != part.network {
				continue
			}
			name[part.at] = part.without
			without := byTarget[strings.Join(name, "/")]
			if len(without) == 0 {
				t.Fatalf("%s: no operation of %s in %q", part.name, strings.Join(name, "/"), slices.Sorted(maps.Keys(byTarget)))
			}
			x.compare(byTarget[target], without)
		}
		out = append(out, x)
	}
	return out
}
