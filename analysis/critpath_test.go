package analysis

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

var update = flag.Bool("update", false, "write the golden files")

// leafWords names the leaves in golden files.
var leafWords = map[Leaf]string{LeafTerminal: "terminal", LeafTimer: "timer", LeafDevice: "device", LeafNetwork: "network", LeafInterrupt: "interrupt",
	LeafHeld: "held", LeafUnknown: "unknown", LeafLost: "lost", LeafBefore: "before", LeafInfrastructure: "infrastructure", LeafQueueing: "queueing"}

func us(t tracer.Time) string { return fmt.Sprintf("%gus", float64(t)/1000) }

// describePath writes a path for people: one line per segment.
func describePath(op *Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operation %d wall=%s lost=%d\n", op.Index, us(tracer.Time(op.WallNs)), op.LostEvents)
	for i := range op.Path.Segments {
		s := &op.Path.Segments[i]
		name := "idle"
		if s.Task > 0 {
			name = op.Trace.Tasks[s.Task].Comm
		}
		fmt.Fprintf(&b, "%-8s %-8s %-14s %-8s %s", us(s.Begin), us(s.End), name, s.State, op.StageName(s))
		if s.State != tracer.StateRunning {
			fmt.Fprintf(&b, " wait=%s", op.WaitName(s))
		}
		if s.Leaf != LeafNone {
			fmt.Fprintf(&b, " leaf=%s", leafWords[s.Leaf])
		}
		b.WriteByte('\n')
	}
	for i := range op.Off {
		o := &op.Off[i]
		fmt.Fprintf(&b, "off-path %s %s %s %s\n", us(o.Begin), us(o.End), op.Trace.Tasks[o.Task].Comm, o.Name)
	}
	return b.String()
}

func linuxSet(t testing.TB) *stage.Set {
	t.Helper()
	set, err := stage.Load([]string{"linux"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// analyse runs the analysis over a text trace.
func analyse(t testing.TB, text string) []string {
	t.Helper()
	var out []string
	an := New(linuxSet(t), Options{})
	err := an.Add(tracetest.Parse(t, text), func(op *Operation) error {
		if err := checkPath(&op.Path, op.Begin, op.End); err != nil {
			return err
		}
		var sum int64
		for _, s := range op.Stages {
			sum += s.Ns
		}
		if sum != op.WallNs {
			return fmt.Errorf("stages sum to %d, wall is %d", sum, op.WallNs)
		}
		out = append(out, describePath(op))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestStories checks every rule of the walk: each trace in testdata tells in
// its first lines what happens, and the golden file beside it says what the
// path must be.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".trace"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, strings.TrimSuffix(f, ".trace")+".path", strings.Join(analyse(t, string(text)), ""))
		})
	}
}

// checkGolden holds a text against a golden file, or rewrites it with -update.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: it is\n%s\nwant\n%s", name, got, want)
	}
}

// TestIncompleteLeftOut: of the two operations of a story the one that may have
// lost events is kept, marked, and left out of the statistics.
func TestIncompleteLeftOut(t *testing.T) {
	text, err := os.ReadFile("testdata/30-loss-elsewhere.trace")
	if err != nil {
		t.Fatal(err)
	}
	an := New(linuxSet(t), Options{})
	if err := an.Add(tracetest.Parse(t, string(text)), nil); err != nil {
		t.Fatal(err)
	}
	r := an.Result(Result{})
	if len(r.Operations) != 2 || r.Operations[0].Incomplete || !r.Operations[1].Incomplete || !r.Totals.Incomplete {
		t.Errorf("operations %+v", r.Operations)
	}
	if len(r.Summary) != 1 || r.Summary[0].N != 1 {
		t.Errorf("summary %+v, want one operation", r.Summary)
	}
}
