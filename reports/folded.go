package reports

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"stagetrace/analysis"
)

// foldedEscapes follow what stack collapsing scripts do: a line is frames
// between semicolons, a space, a number, so neither may be part of a name.
var foldedEscapes = strings.NewReplacer(";", ":", " ", "_")

// writeFolded writes the wall profile's stacks as "frame;frame;frame NS"
// lines in sorted order. The numbers add up to the wall time of the operations.
// The format has no comments: what is missing in a run is stacks that weigh
// nothing.
func writeFolded(w io.Writer, in *Input) error {
	each, err := operations(in)
	if err != nil {
		return err
	}
	s := newStacks()
	sums := map[string]int64{}
	err = each(func(op *analysis.Operation) error {
		return s.path(op, func(_ *analysis.Segment, stack []uint32, ns int64) { sums[pack(stack)] += ns })
	})
	if err != nil {
		return err
	}
	lines := map[string]int64{}
	if in.Result != nil {
		for _, l := range losses(in.Result) {
			lines["[warning];"+foldedEscapes.Replace(l)] = 0
		}
	}
	for key, ns := range sums {
		names := []string{}
		for _, id := range unpack(key) {
			names = append(names, foldedEscapes.Replace(s.frames[id].name))
		}
		// Frames that differ in address only become the same line.
		lines[strings.Join(names, ";")] += ns
	}
	keys := make([]string, 0, len(lines))
	for k := range lines {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := bufio.NewWriter(w)
	for _, k := range keys {
		fmt.Fprintf(out, "%s %d\n", k, lines[k])
	}
	return out.Flush()
}
