package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"stagetrace/analysis"
	"stagetrace/analysis/stats"
)

// mostImported bounds a file of figures: results of long runs have some MB.
const mostImported = 256 << 20

// importFigures reads what was measured elsewhere.
func importFigures(files []string) ([]analysis.Imported, error) {
	var all []analysis.Imported
	for _, name := range files {
		list, err := importFile(name)
		if err != nil {
			return nil, fmt.Errorf("import %s: %w", name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

func importFile(name string) ([]analysis.Imported, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostImported+1))
	if err != nil {
		return nil, err
	}
	if len(data) > mostImported {
		return nil, fmt.Errorf("larger than %d bytes", mostImported)
	}
	list, err := parseFigures(data)
	for i := range list {
		list[i].From = filepath.Base(name)
	}
	return list, err
}

// figures is what of the two kinds of files is looked at: a result.json of
// ours, and the JSON export of hyperfine, whose times are in seconds.
type figures struct {
	Host    struct{ Name string }
	Summary []struct {
		Target string
		Wall   analysis.Distribution
	}
	Results []struct {
		Command string
		Times   []float64
	}
}

// parseFigures reads the end-to-end times out of a file. Values that are no
// times are an error.
func parseFigures(data []byte) ([]analysis.Imported, error) {
	var f figures
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	var list []analysis.Imported
	for _, s := range f.Summary {
		d := s.Wall
		if d.N <= 0 || !isTime(d.Median) || !isTime(d.P95) || !isTime(d.P99) || d.Lo != nil && !isTime(*d.Lo) || d.Hi != nil && !isTime(*d.Hi) {
			return nil, fmt.Errorf("target %q: no times in its summary", s.Target)
		}
		list = append(list, analysis.Imported{Target: s.Target, Host: f.Host.Name, Wall: d})
	}
	for _, r := range f.Results {
		ns := make([]float64, len(r.Times))
		for i, t := range r.Times {
			if ns[i] = t * 1e9; !isTime(ns[i]) {
				return nil, fmt.Errorf("command %q: %v is no time", r.Command, t)
			}
		}
		if len(ns) == 0 {
			return nil, fmt.Errorf("command %q: no times", r.Command)
		}
		list = append(list, analysis.Imported{Target: r.Command, Wall: analysis.Distribution(stats.Describe(ns))})
	}
	if len(list) == 0 {
		return nil, errors.New("neither a result.json with a summary nor the JSON export of hyperfine")
	}
	return list, nil
}

// isTime says that ns can be the duration of something.
func isTime(ns float64) bool { return ns >= 0 && ns < math.MaxInt64 }
