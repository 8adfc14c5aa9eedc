package analysis

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// runOf is a result with one target whose operations take the given times, of
// which stage "a" takes its share and "b" the rest.
func runOf(shareA float64, walls ...int64) *Result {
	r := &Result{Schema: 1, Workload: "command", Host: Host{Name: "h", Kernel: "6.18"}, StageSet: StageSet{"linux", "x"}}
	for i, w := range walls {
		a := int64(shareA * float64(w))
		r.Operations = append(r.Operations, OperationResult{Target: "t", Index: i + 1, WallNs: w,
			Stages: []StageResult{{Name: "a", Ns: a, RunningNs: a}, {Name: "b", Ns: w - a, BlockedNs: w - a}}})
	}
	return r
}

func TestCompareVerdicts(t *testing.T) {
	for _, c := range []struct {
		name        string
		base, next  []int64
		verdict     string
		significant bool
		tellable    bool
	}{
		{"clearly slower", []int64{997, 1005, 998, 997, 991, 998, 1011, 1004, 1010}, []int64{1102, 1104, 1102, 1083, 1109, 1105, 1105, 1083, 1083}, VerdictSlower, true, true},
		{"clearly faster", []int64{1102, 1104, 1102, 1083, 1109, 1105}, []int64{997, 1005, 998, 997, 991, 998}, VerdictFaster, true, true},
		{"no change", []int64{973, 986, 1009, 999, 1016, 981, 1009, 1012, 980}, []int64{1052, 1017, 1036, 981, 978, 990, 997, 1019, 1007}, VerdictSame, false, true},
		{"one each", []int64{1000}, []int64{1300}, VerdictUntold, false, false},
		{"all equal", []int64{500, 500, 500, 500, 500, 500}, []int64{500, 500, 500, 500, 500, 500}, VerdictSame, false, true},
		{"nothing", nil, nil, "", false, false},
	} {
		cmp := Compare(runOf(0.5, c.base...), runOf(0.5, c.next...))
		if len(c.base) == 0 {
			if len(cmp.Targets) != 0 || len(cmp.Warnings) == 0 {
				t.Errorf("%s: %+v", c.name, cmp)
			}
			continue
		}
		w := cmp.Targets[0].Wall
		if w.Verdict != c.verdict || w.Significant != c.significant || (w.PValue != nil) != c.tellable {
			t.Errorf("%s: %+v", c.name, w)
		}
		text, err := json.Marshal(cmp)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !c.significant && regexp.MustCompile(`(?i)"significant":true|regress|improv|NaN|"p_value":0[,}]`).Match(text) {
			t.Errorf("%s claims too much: %s", c.name, text)
		}
	}
}

func TestCompareWithItself(t *testing.T) {
	r := runOf(0.3, 20100, 20200, 20300, 20050, 20400, 20150, 20250, 20350, 20000, 20450, 20500, 20600)
	c := Compare(r, r)
	if len(c.Warnings) != 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	for _, d := range append([]Delta{c.Targets[0].Wall}, c.Targets[0].Stages...) {
		if d.Significant || d.Difference != 0 || *d.Ratio != 1 || d.Verdict != VerdictSame {
			t.Errorf("%+v", d)
		}
	}
}

// Only stage a became slower; the other differences must survive the
// adjustment for looking at several stages.
func TestCompareStages(t *testing.T) {
	base := runOf(0.5, 1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070)
	next := runOf(0.5, 1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070)
	for i := range next.Operations {
		op := &next.Operations[i]
		op.WallNs += 800
		op.Stages[0].Ns += 800
		op.Stages = append(op.Stages, StageResult{Name: "new", Ns: 0})
	}
	next.Operations[3].Failed = true
	c := Compare(base, next)
	s := c.Targets[0].Stages
	if s[0].Name != "a" || !s[0].Significant || s[0].Verdict != VerdictSlower || s[0].New.N != 7 {
		t.Errorf("first %+v", s[0])
	}
	for _, d := range s[1:] {
		if d.Significant {
			t.Errorf("%+v", d)
		}
		if d.Name == "new" && d.Ratio != nil {
			t.Errorf("a ratio to nothing: %+v", d)
		}
	}
}

func TestCompareConditions(t *testing.T) {
	a, b := runOf(0.5, 1, 2), runOf(0.5, 1, 2)
	b.StageSet.Hash, b.Host.Kernel, b.Host.Name = "y", "6.1", "other"
	var ids []string
	for _, w := range Compare(a, b).Warnings {
		ids = append(ids, w.ID)
	}
	if got := strings.Join(ids, " "); got != "compare-stages compare-host compare-kernel" {
		t.Errorf("warnings %q", got)
	}
	b.Operations[1].Target = "u"
	c := Compare(runOf(0.5, 1), b)
	if len(c.Targets) != 1 || c.Warnings[len(c.Warnings)-1].ID != "target-unmatched" {
		t.Errorf("%+v", c)
	}
}

func TestCompareUntraced(t *testing.T) {
	a, b := runOf(0.5, 100, 100), runOf(0.5, 100, 100)
	for i := range int64(6) {
		a.Untraced = append(a.Untraced, UntracedResult{Target: "t", WallNs: 80 + i})
		b.Untraced = append(b.Untraced, UntracedResult{Target: "t", WallNs: 180 + i})
	}
	w := Compare(a, b).Targets[0]
	if !w.Untraced || !w.Wall.Significant || w.Wall.Base.N != 6 {
		t.Errorf("%+v", w)
	}
}
