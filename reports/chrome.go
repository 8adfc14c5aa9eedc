package reports

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

// chromeSink writes the JSON object form of Chrome's Trace Event Format, which
// chrome://tracing, ui.perfetto.dev, speedscope and others read. What is of no
// process is in one of its own.
type chromeSink struct {
	out    *bufio.Writer
	err    error
	result *analysis.Result
	begun  bool
}

// chromeEvent is one element of traceEvents.
type chromeEvent struct {
	Phase    string         `json:"ph"`
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	At       micros         `json:"ts"`
	Duration *micros        `json:"dur,omitempty"`
	PID      int32          `json:"pid"`
	TID      int32          `json:"tid"`
	Flow     uint64         `json:"id,omitempty"`
	Bind     string         `json:"bp,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// micros is a time of the format: microseconds, here with all nanoseconds.
type micros tracer.Time

func (m micros) MarshalJSON() ([]byte, error) {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	return fmt.Appendf(nil, "%s%d.%03d", sign, m/1000, m%1000), nil
}

// chromeAbout is what a viewer shows as the metadata of the file.
type chromeAbout struct {
	Tool     string   `json:"tool"`
	Measured string   `json:"measured"`
	Host     string   `json:"host"`
	StageSet string   `json:"stage_set"`
	Warnings []string `json:"warnings"`
}

func writeChrome(w io.Writer, in *Input) error {
	c := &chromeSink{out: bufio.NewWriter(w), result: in.Result}
	if c.result == nil {
		c.result = &analysis.Result{}
	}
	c.event(&chromeEvent{Phase: "M", Name: "process_name", PID: chromeOwn, Args: map[string]any{"name": "trace"}})
	c.event(&chromeEvent{Phase: "M", Name: "process_sort_index", PID: chromeOwn, Args: map[string]any{"sort_index": -1}})
	return writeTracks(c, in)
}

func (c *chromeSink) event(e *chromeEvent) {
	if c.err != nil {
		return
	}
	text, err := json.Marshal(e)
	before := ",\n"
	if !c.begun {
		c.begun, before = true, "{\"traceEvents\": [\n"
	}
	c.err = err
	if err == nil {
		_, c.err = c.out.WriteString(before + string(text))
	}
}

func (c *chromeSink) close() error {
	r := c.result
	text, err := json.Marshal(chromeAbout{Tool: Clean(r.Tool), Measured: title(r, Clean), Host: hostText(r, Clean),
		StageSet: Clean(r.StageSet.Name + " " + r.StageSet.Hash), Warnings: append(losses(r), cleanWarnings(r)...)})
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.out, "\n], \"displayTimeUnit\": \"ns\", \"otherData\": %s}\n", text)
	}
	return cmp.Or(c.err, err, c.out.Flush())
}

func cleanWarnings(r *analysis.Result) []string {
	out := []string{}
	for i := range r.Warnings {
		out = append(out, Clean(r.Warnings[i].Text))
	}
	return out
}

// chromeOwn is above all numbers of processes and threads: that of the process
// of what is of no process, and what is added to a track's id where it is not a
// thread's main track.
const chromeOwn = 1 << 30

// place is the process and thread number of a track.
func (t *track) place() (pid, tid int32) {
	pid, tid = t.pid, t.tid
	if pid < 0 {
		pid = chromeOwn
	}
	if tid < 0 {
		tid = chromeOwn + int32(t.id)
	}
	return pid, tid
}

func (c *chromeSink) track(t *track) {
	pid, tid := t.place()
	switch {
	case t.counter != "": // goes by its name
	case t.pid >= 0 && t.parent == nil:
		c.event(&chromeEvent{Phase: "M", Name: "process_name", PID: pid, Args: map[string]any{"name": t.name}})
	default:
		c.event(&chromeEvent{Phase: "M", Name: "thread_name", PID: pid, TID: tid, Args: map[string]any{"name": t.name}})
		c.event(&chromeEvent{Phase: "M", Name: "thread_sort_index", PID: pid, TID: tid, Args: map[string]any{"sort_index": t.id}})
	}
}

func (c *chromeSink) slice(s *slice) {
	pid, tid := s.track.place()
	duration := micros(s.end - s.begin)
	args := make(map[string]any, len(s.notes))
	for _, n := range s.notes {
		if args[n.name] = n.text; n.text == "" {
			args[n.name] = n.number
		}
	}
	c.event(&chromeEvent{Phase: "X", Name: s.name, Category: s.category, At: micros(s.begin), Duration: &duration, PID: pid, TID: tid, Args: args})
	// An arrow binds to the slice that is open at its time, so one that leaves
	// must do so before the slice's end.
	if s.from != 0 {
		c.event(&chromeEvent{Phase: "s", Name: "wake", Category: "wake", At: micros(max(s.begin, s.end-1)), PID: pid, TID: tid, Flow: s.from})
	}
	if s.to != 0 {
		c.event(&chromeEvent{Phase: "f", Name: "wake", Category: "wake", At: micros(s.begin), PID: pid, TID: tid, Flow: s.to, Bind: "e"})
	}
}

func (c *chromeSink) counter(t *track, at tracer.Time, value int64) {
	c.event(&chromeEvent{Phase: "C", Name: t.name, At: micros(at), PID: chromeOwn, Args: map[string]any{t.counter: value}})
}
