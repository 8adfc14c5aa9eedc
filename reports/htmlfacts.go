package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stagetrace/analysis"
)

func sortedBars(bars []runBar) []runBar {
	slices.SortStableFunc(bars, func(a, b runBar) int { return cmp.Compare(a.index, b.index) })
	return bars
}

// processes lists who took part.
func (p *page) processes(r *analysis.Result) {
	for i := range r.Processes {
		if i == pageProcesses {
			p.ProcessesNote = fmt.Sprintf("The first %d of %d; the rest is in result.json.", i, len(r.Processes))
			break
		}
		x := &r.Processes[i]
		args := ""
		if len(x.Argv) > 1 {
			args = strings.Join(x.Argv[1:], " ")
		}
		if len(args) > pageArgs {
			args = cutRune(args, pageArgs) + " ..."
		} else if x.Truncated {
			args += " ..."
		}
		p.Processes = append(p.Processes, pageProcess{PID: x.PID, Parent: x.Parent, Comm: Clean(x.Comm), Role: Clean(x.Role), Exe: Clean(x.Exe), Args: Clean(args)})
	}
}

// facts say how it was measured, so that the page stands alone.
func (p *page) facts(r *analysis.Result) {
	add := func(name, value string) {
		if value != "" {
			p.Facts = append(p.Facts, pageFact{name, value})
		}
	}
	traced, untraced := len(r.Operations), len(r.Untraced)
	add("operations", fmt.Sprintf("%d traced, %d untraced, %d failed", traced, untraced, r.Totals.Failed))
	add("recording", recordingCost(r))
	add("backend", Clean(r.Recording.Backend))
	add("probes", Clean(strings.Join(r.Recording.Probes, ", ")))
	for _, n := range r.Recording.Notes {
		add("note", Clean(n))
	}
	add("stage set", Clean(strings.TrimSpace(r.StageSet.Name+" "+r.StageSet.Hash)))
	add("host", p.Host)
	add("tool", Clean(r.Tool))
	add("started", p.Started)
	if r.Totals.Samples > 0 {
		add("stacks", fmt.Sprintf("%d samples, %d stacks lost, %s of frames without a name", r.Totals.Samples, r.Totals.LostStacks, percent(r.Totals.UnknownFramesPct/100)))
	}
	add("processes", fmt.Sprintf("%d processes, %d programs executed, %d threads", r.Totals.Processes, r.Totals.Execs, r.Totals.Threads))
	add("intervals", "of medians, 95 %, by order statistics; none for fewer than 6 operations")
}
