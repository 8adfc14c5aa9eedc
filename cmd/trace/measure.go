package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/reports"
	"stagetrace/tracer"
	"stagetrace/workloads"
)

// folderFormats are the formats that every result folder has.
var folderFormats = []string{"json", "pprof", "pprof-cpu", "html"}

// measureRun is trace run after its command line was understood.
func measureRun(ctx context.Context, o *runOptions, term *terminal) error {
	s, err := o.subject(ctx)
	if err != nil {
		return err
	}
	remove, err := o.uprobeStages()
	if err != nil {
		return err
	}
	defer remove()
	set, err := loadStages(o.stages, s.workload.Stages)
	if err != nil {
		return err
	}
	imported, err := importFigures(o.imports)
	if err != nil {
		return err
	}
	m, err := newMeasurement(ctx, &o.recording, o.formats, set, s.workload.Name, term)
	if err != nil {
		return err
	}
	defer m.close()
	for _, n := range s.notes {
		m.progress.note("%s", n)
	}
	for _, n := range s.skipped {
		m.progress.note("skipped %s", n)
		m.warn(warnSkipped, "not measured: "+n, "")
	}
	for _, n := range s.partly {
		m.warn(warnClientOnly, "only the client's part is recorded: "+n, "")
	}
	m.base.Workload, m.base.Units, m.base.Params, m.base.Command = s.workload.Name, s.workload.Unit, s.params, o.argv
	m.base.Imported = imported
	if err := m.writeFacts(); err != nil {
		return err
	}
	results, err := workloads.Run(ctx, s.running, o.plan, m.recorder, func(step workloads.Step) {
		m.progress.update(strings.TrimSpace(string(step.Phase)+" "+step.Target), step.Done, step.Total)
	})
	m.progress.clear()
	m.note(results)
	m.leftovers(results)
	return m.finish(ctx, len(results), err)
}

// measurement is everything a command that records has open while it does.
type measurement struct {
	term     *terminal
	set      *stage.Set
	dir      *folder
	outs     []*output
	wide     bool
	events   *os.File
	writer   *tracer.Writer
	session  tracer.Session
	analyzer *analysis.Analyzer
	options  analysis.Options
	recorder *recorder // set with session
	progress *progress
	base     analysis.Result
}

// newMeasurement opens everything, so that what cannot be written or recorded
// shows before anything runs.
func newMeasurement(ctx context.Context, r *recording, formats []string, set *stage.Set, what string, term *terminal) (m *measurement, err error) {
	cfg, err := r.config(set)
	if err != nil {
		return nil, err
	}
	m = &measurement{term: term, set: set, wide: r.wide, progress: newProgress(term.err), options: analysis.Options{Settle: tracer.Time(r.settle)}}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.outs, err = parseOutputs(formats); err != nil {
		return m, err
	}
	if !slices.ContainsFunc(m.outs, func(o *output) bool { return o.file == "" }) {
		table, err := reports.Lookup("table")
		if err != nil {
			return m, err
		}
		m.outs = append(m.outs, &output{format: table})
	}
	started := time.Now()
	out := r.out
	if out == "" {
		out = defaultFolder(what, started)
	}
	if m.dir, err = createFolder(out, r.force); err != nil {
		return m, err
	}
	if err = keepStages(m.dir, r.stages); err != nil {
		return m, err
	}
	if err = openAll(m.outs, term); err != nil {
		return m, err
	}
	if m.events, err = os.Create(m.dir.file(eventsFile)); err != nil {
		return m, err
	}
	if m.writer, err = tracer.NewWriter(m.events); err != nil {
		return m, err
	}
	m.base = analysis.Result{Tool: "trace " + toolVersion(), Label: r.label, Started: started.UTC().Format(time.RFC3339),
		Host: analysis.Host(workloads.Host(ctx)), Params: map[string]string{}}
	if m.session, m.base.Warnings, err = openSession(ctx, cfg); err != nil {
		return m, err
	}
	for _, w := range m.base.Warnings {
		m.progress.note("warning: %s", w.Text)
	}
	m.analyzer = analysis.New(set, withWhatIf(m.options, nil))
	m.recorder = newRecorder(m.session, m.writer, m.analyzer, r.settle)
	return m, nil
}

// writeFacts begins the recording with what is known of the run.
func (m *measurement) writeFacts() error {
	m.base.StageSet = analysis.StageSet{Name: m.set.Name, Hash: m.set.Hash}
	data, err := json.Marshal(runFacts{Result: m.base, SettleNs: int64(m.options.Settle)})
	if err != nil {
		return err
	}
	return m.writer.WriteMeta(runEntry, data)
}

// note keeps what the recording does not have of operations: how long those took
// that were measured with nothing attached, and the metrics of all.
func (m *measurement) note(results []workloads.Result) {
	for i := range results {
		r := &results[i]
		if r.Warmup {
			continue
		}
		for _, v := range r.Metrics {
			if r.Err == nil {
				m.base.Metrics = append(m.base.Metrics, analysis.MetricResult{Target: r.Target, Index: r.Index, Name: v.Name, Unit: v.Unit, Value: v.Value, Traced: r.Traced})
			}
		}
		if r.Traced {
			continue
		}
		m.base.Untraced = append(m.base.Untraced, analysis.UntracedResult{Target: r.Target, Index: r.Index, WallNs: r.End - r.Begin,
			Failed: r.Err != nil, ExitCode: r.ExitCode, First: r.First})
	}
}

// leftovers warns of processes that operations left running.
func (m *measurement) leftovers(results []workloads.Result) {
	var names []string
	for i := range results {
		for _, l := range results[i].Leftovers {
			if !slices.Contains(names, l) {
				names = append(names, l)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	const most = 10
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	m.warn(warnLeftover, "processes that operations left running, and that were left alone: "+text,
		"an operation ends with its main process; what a daemon does later is not part of it")
}

func (m *measurement) warn(id, text, hint string) {
	m.base.Warnings = append(m.base.Warnings, analysis.Warning{ID: id, Text: text, Hint: hint})
}

// finish writes what was measured, however the measuring ended (cause). With
// nothing measured there is no result.
func (m *measurement) finish(ctx context.Context, measured int, cause error) error {
	if cause != nil {
		if measured == 0 {
			return cause
		}
		m.base.Totals.Incomplete = true
		if ctx.Err() != nil {
			m.warn(warnInterrupted, "the run was interrupted; this is what was measured until then", "")
		} else {
			m.warn(warnEndedEarly, "the run ended early: "+cause.Error(), "")
		}
	}
	result := m.analyzer.Result(m.base)
	m.endSession() // its buffers are not needed for reports
	if err := m.write(result); err != nil {
		return errors.Join(cause, m.dir.keep(err))
	}
	if cause == nil && result.Totals.Failed > 0 {
		return fmt.Errorf("%d of %d operations failed", result.Totals.Failed, len(result.Operations)+len(result.Untraced))
	}
	return cause
}

// write fills the folder, gives it its name, and then writes what goes
// elsewhere.
func (m *measurement) write(result *analysis.Result) error {
	if err := errors.Join(m.writer.Close(), m.events.Close()); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	m.events = nil
	in := reports.Input{Result: result, Operations: operations(m.dir.file(eventsFile), m.set, m.options), Wide: m.wide}
	if err := m.fillFolder(&in); err != nil {
		return err
	}
	if err := m.dir.commit(); err != nil {
		return err
	}
	in.Operations = operations(filepath.Join(m.dir.path, eventsFile), m.set, m.options)
	for _, o := range m.outs {
		if err := o.write(o.input(in, m.term)); err != nil {
			return err
		}
	}
	fmt.Fprintf(m.term.err, "result: %s\n", printable(m.dir.path, false))
	fmt.Fprintf(m.term.err, "flame graph: go tool pprof -http=: %s\n", printable(filepath.Join(m.dir.path, "wall.pb.gz"), false))
	return nil
}

// fillFolder writes the folder's own reports in one pass over the operations.
func (m *measurement) fillFolder(in *reports.Input) error {
	var writers []func(*reports.Input) error
	for _, name := range folderFormats {
		f, err := reports.Lookup(name)
		if err != nil {
			return err
		}
		writers = append(writers, func(in *reports.Input) error {
			o := output{format: f, file: m.dir.file(f.File)}
			err := o.open(m.term)
			if err == nil {
				err = o.write(in)
			}
			if err != nil {
				o.discard()
			}
			return err
		})
	}
	return reports.Together(in, writers...)
}

// endSession lets go of the kernel's side of the recording.
func (m *measurement) endSession() {
	if m.session == nil {
		return
	}
	if err := m.session.Close(); err != nil {
		complain(m.term.err, fmt.Errorf("close the recording: %w", err))
	}
	m.session = nil
}

// close gives up whatever finish has not completed.
func (m *measurement) close() {
	for _, o := range m.outs {
		o.discard()
	}
	if m.events != nil {
		_ = m.events.Close() // of a recording that nobody gets
	}
	m.endSession()
	if m.dir != nil {
		if err := m.dir.discard(); err != nil {
			complain(m.term.err, err)
		}
	}
}
