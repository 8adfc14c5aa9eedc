//go:build amd64 || arm64

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"stagetrace/tracer"
)

// truthRuns is how many operations of a program are recorded. One of them proves
// little: a hypervisor that takes the CPU away between the arming of a timer
// and the switch makes a sleep shorter and what ran longer, and both are true.
const truthRuns = 11

// truthResult is what a program's recording showed.
type truthResult struct {
	program    *truthProgram
	skipped    string // why it cannot run here
	operations int
	lost       int          // operations left out, since events were lost in them
	found      []truthFound // one for each expectation
	blamed     []string     // bystanders that are said to have to do with it
}

// truthFound holds one expectation against the operations.
type truthFound struct {
	expect   *truthExpectation
	truth    []tracer.Time // by operation
	recorded []tracer.Time
	instead  map[string]tracer.Time // of all operations: what the path has in place of it
}

// truthTolerance is what two clocks, a process's own and the kernel's, may
// differ.
func truthTolerance(d tracer.Time) tracer.Time { return max(d/50, 100_000) }

// off is the median of recorded less truth, and how many operations are within
// the tolerance.
func (f *truthFound) off() (median tracer.Time, within int) {
	diffs := make([]tracer.Time, len(f.truth))
	for i := range diffs {
		diffs[i] = f.recorded[i] - f.truth[i]
		if max(diffs[i], -diffs[i]) <= truthTolerance(f.truth[i]) {
			within++
		}
	}
	return middle(diffs), within
}

func middle(v []tracer.Time) tracer.Time {
	if len(v) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(v))[len(v)/2]
}

// others lists the most of what the path has instead.
func (f *truthFound) others() string {
	names := slices.SortedFunc(maps.Keys(f.instead), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.instead[b], f.instead[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, n := range names[:min(len(names), 5)] {
		texts = append(texts, n+" "+millis(f.instead[n]))
	}
	return strings.Join(texts, "; ")
}

func (f *truthFound) ok() bool {
	off, _ := f.off()
	return len(f.truth) > truthRuns/2 && max(off, -off) <= truthTolerance(middle(f.truth))
}

// failures says in words what is wrong with a result.
func (r *truthResult) failures() (texts []string) {
	if r.skipped != "" {
		return nil
	}
	if r.operations <= truthRuns/2 {
		texts = append(texts, fmt.Sprintf("%d of %d operations could be checked, %d lost events", r.operations, truthRuns, r.lost))
	}
	for i := range r.found {
		if f := &r.found[i]; !f.ok() {
			off, within := f.off()
			texts = append(texts, fmt.Sprintf("%s: %d us off in the middle of %d operations, %d within: truth %v, recorded %v, instead of it %s", f.expect.what,
				off/1000, len(f.truth), within, f.truth, f.recorded, f.others()))
		}
	}
	return append(texts, r.blamed...)
}

// truthSuite runs all programs and prints the table; ok is false when one of
// them was not recovered.
func truthSuite(ctx context.Context, w io.Writer) (ok bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	ok = true
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "program\twhat is known\ttruth\trecorded\tdifference\twithin\tverdict")
	var texts []string
	for _, p := range truthSuitePrograms() {
		r, err := measureTruth(ctx, self, &p)
		if err != nil {
			return false, fmt.Errorf("%s: %w", p.name, err)
		}
		r.rows(tw)
		for _, t := range r.failures() {
			texts = append(texts, p.name+": "+t)
		}
	}
	if err := tw.Flush(); err != nil {
		return false, err
	}
	for _, t := range texts {
		fmt.Fprintln(w, t)
	}
	return len(texts) == 0, nil
}

// truthSuitePrograms are the programs that are measured; the others take part
// in them.
func truthSuitePrograms() []truthProgram {
	return slices.DeleteFunc(truthPrograms(), func(p truthProgram) bool { return len(p.expect) == 0 })
}

// rows prints a result as lines of the table.
func (r *truthResult) rows(w io.Writer) {
	if r.skipped != "" {
		fmt.Fprintf(w, "%s\t%s\t\t\t\t\tskipped: %s\n", r.program.name, r.program.what, r.skipped)
		return
	}
	for i := range r.found {
		f := &r.found[i]
		off, within := f.off()
		verdict := "ok"
		if !f.ok() || len(r.blamed) > 0 {
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s: %s\t%s\t%s\t%+.3f ms\t%d of %d\t%s\n", r.program.name, r.program.what, f.expect.what,
			millis(middle(f.truth)), millis(middle(f.recorded)), float64(off)/1e6, within, len(f.truth), verdict)
	}
}

func millis(t tracer.Time) string { return fmt.Sprintf("%.3f ms", float64(t)/1e6) }
