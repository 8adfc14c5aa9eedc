package reports

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNeedsOperations says that a format cannot be made from result.json alone.
var ErrNeedsOperations = errors.New("needs the recorded events")

// Formats is the table of formats, in the order in which they are listed.
func Formats() []Format {
	return []Format{
		{Name: "table", File: "report.txt", Summary: "stage table, as on the terminal", Write: writeTable},
		{Name: "json", File: "result.json", Summary: "everything that was measured, with raw values; see result.schema.json", Write: writeJSON},
		{Name: "csv", File: "stages.csv", Summary: "one row per operation and stage, for spreadsheets and data frames", Write: writeCSV},
		{Name: "md", File: "report.md", Summary: "Markdown tables, for issues and pages", Write: writeMarkdown},
		{Name: "html", File: "report.html", Summary: "one self-contained page", WantsOperations: true, Write: writeHTML},
		{Name: "benchfmt", File: "stages.bench.txt", Summary: "Go benchmark lines per operation and stage, for benchstat", Write: writeBenchfmt},
		{Name: "pprof", File: "wall.pb.gz", Summary: "pprof profile of the critical path; sums to the wall time", Binary: true, NeedsOperations: true, Write: writeWallProfile},
		{Name: "pprof-cpu", File: "cpu.pb.gz", Summary: "pprof profile of CPU samples, on and off the path", Binary: true, NeedsOperations: true, Write: writeCPUProfile},
		{Name: "folded", File: "wall.folded", Summary: "folded stacks of the critical path, for flame graph scripts", NeedsOperations: true, Write: writeFolded},
		{Name: "perfetto", File: "trace.pftrace", Summary: "path, calls and counters as tracks, wakes as arrows, for ui.perfetto.dev", Binary: true, NeedsOperations: true, Write: writePerfetto},
		{Name: "chrome", File: "trace.json", Summary: "the same as JSON, for chrome://tracing and whatever reads its format", NeedsOperations: true, Write: writeChrome},
		{Name: "speedscope", File: "wall.speedscope.json", Summary: "time line of each path and CPU samples, for speedscope.app", NeedsOperations: true, Write: writeSpeedscope},
	}
}

// aliases are names people type for a format.
var aliases = map[string]string{
	"text": "table", "txt": "table", "markdown": "md", "pprof-wall": "pprof", "wall": "pprof", "cpu": "pprof-cpu", "benchstat": "benchfmt", "pftrace": "perfetto", "chrome-json": "chrome", "trace-event": "chrome",
}

// Lookup finds a format by name or alias, in any case. The error lists the names.
func Lookup(name string) (Format, error) {
	key := strings.ToLower(strings.TrimSpace(name))
	if full, ok := aliases[key]; ok {
		key = full
	}
	formats := Formats()
	i := slices.IndexFunc(formats, func(f Format) bool { return f.Name == key })
	if i >= 0 {
		return formats[i], nil
	}
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.Name
	}
	return Format{}, fmt.Errorf("format %q is not known; there are %s", Clean(name), strings.Join(names, ", "))
}
