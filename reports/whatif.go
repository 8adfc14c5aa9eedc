package reports

import (
	"fmt"
	"slices"
	"strings"

	"stagetrace/analysis"
)

// worthSaying is the part of an operation from which a gain is named in a
// sentence.
const worthSaying = 0.005

// gainHead is the heading of the column of gains.
const gainHead = "if free"

// hasGains tells that operations were replayed without their stages.
func (v *targetView) hasGains() bool { return v.WhatIf != nil && v.WhatIf.N > 0 }

// gain is the cell of a row of what the operation would be shorter by; "" where
// nothing can be told, as of a folded row.
func (v *targetView) gain(row *stageRow) string {
	if !v.hasGains() || row.Folded > 0 {
		return ""
	}
	for i := range v.WhatIf.Stages {
		if s := &v.WhatIf.Stages[i]; s.Name == row.Name {
			return v.Unit.less(s.Free.Median)
		}
	}
	return "0"
}

// less is a cell for a time that is saved.
func (u timeUnit) less(ns float64) string {
	s := u.cell(ns)
	if digits(ns/u.ns) == "0" {
		return s
	}
	return "-" + s
}

// gainNotes explain the column of gains, and name the stages that have none of
// its cells: they are not on the path of what was recorded.
func gainNotes(v *targetView, clean func(string) string) []string {
	if v.WhatIf == nil {
		return nil
	}
	var out []string
	if n := v.WhatIf.CannotTell; n > 0 {
		out = append(out, fmt.Sprintf("if free: cannot tell of %s", plural(n, "operation", "operations")))
	}
	if !v.hasGains() {
		return out
	}
	var beside []string
	for i := range v.WhatIf.Stages {
		s := &v.WhatIf.Stages[i]
		onPath := slices.ContainsFunc(v.Stages, func(x analysis.StageSummary) bool { return x.Name == s.Name })
		if !onPath && s.Free.Median >= worthSaying*v.Traced.Median {
			beside = append(beside, clean(s.Name)+" "+v.Unit.less(s.Free.Median))
		}
	}
	text := "if free: how much less the operation would take if the stage took no time, with what would then be waited for instead"
	if len(beside) > 0 {
		text += "; beside the path, too: " + strings.Join(beside, ", ")
	}
	return append(out, text)
}

// scenarioText is the answer to --what-if: how long, and what comes to the fore.
func scenarioText(v *targetView, dots string, clean func(string) string) []string {
	if v.WhatIf == nil || v.WhatIf.Scenario == nil {
		return nil
	}
	s := v.WhatIf.Scenario
	text := fmt.Sprintf("what if %s: %s would be %s, %s less", clean(s.Text), duration(v.Traced.Median), duration(s.Wall.Median), duration(s.Gain.Median))
	if iv := durationInterval(s.Gain.Lo, s.Gain.Hi, dots); iv != "" {
		text += " (" + iv + ")"
	}
	if v.Traced.Median > 0 {
		text += ", " + percent(s.Gain.Median/v.Traced.Median)
	}
	var grown []string
	for _, st := range s.Stages {
		if st.After-st.Before >= worthSaying*v.Traced.Median {
			grown = append(grown, fmt.Sprintf("%s %s instead of %s", clean(st.Name), duration(st.After), duration(st.Before)))
		}
	}
	if len(grown) == 0 {
		return []string{text, "nothing else would be waited for longer"}
	}
	return []string{text, "would be waited for instead: " + strings.Join(grown, ", ")}
}
