package reports

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stagetrace/analysis"
)

func TestPairs(t *testing.T) {
	for _, c := range []struct{ targets, want string }{
		{"a", ""},
		{"a b", "b:a"},
		{"d/none d/bridge", "d/bridge:d/none"},
		{"d/none d/bridge d/host", "d/bridge:d/none d/host:d/none"},
		{"d/none d/bridge r/none r/bridge", "d/bridge:d/none r/none:d/none r/bridge:d/bridge r/bridge:r/none"},
		{"a/x/y b", "b:a/x/y"},
		{"a/x b/y", "b/y:a/x"},
	} {
		r := &analysis.Result{}
		for i, name := range strings.Fields(c.targets) {
			r.Summary = append(r.Summary, analysis.Summary{Target: name})
			r.Operations = append(r.Operations, analysis.OperationResult{Target: name, Index: i + 1, WallNs: 1})
		}
		var got []string
		for _, p := range pairsOf(r) {
			got = append(got, p.New+":"+p.Base)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", c.targets, diff)
		}
	}
}

// What is printed adds up as printed.
func TestPrintedPartsAddUp(t *testing.T) {
	r := &analysis.Result{}
	for i := range 14 {
		n := int64(i * i * 1_234_567 % 9_999_991)
		name := []string{"a", "b"}[i%2]
		op := analysis.OperationResult{Target: name, Index: i + 1}
		for k, stage := range []string{"x", "y", "z", "v", "w"} {
			ns := n*int64(k+1)/7 + int64(i%2)*3_333_333
			op.WallNs += ns
			op.Stages = append(op.Stages, analysis.StageResult{Name: stage, Ns: ns})
		}
		r.Operations = append(r.Operations, op)
	}
	c, _ := analysis.CompareTargets(r, "a", "b")
	u := columnUnit(float64(max(c.Traced.Part.BaseNs, c.Traced.Part.NewNs)))
	var sum printedPart
	for _, p := range printedParts(c.Stages, u) {
		sum.add(p)
	}
	within := func(got, ns int64) bool {
		return got*int64(u.ns)-100*ns <= int64(u.ns) && got*int64(u.ns)-100*ns >= -int64(u.ns)
	}
	if !within(sum.base, c.Traced.Part.BaseNs) || !within(sum.next, c.Traced.Part.NewNs) {
		t.Errorf("printed %+v, total %+v", sum, *c.Traced.Part)
	}
	var b strings.Builder
	tw := newTableWriter(&Input{Wide: true})
	tw.parts(&c)
	b.WriteString(tw.b.String())
	for _, want := range []string{"total", plus(fixed(sum.next - sum.base))} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
