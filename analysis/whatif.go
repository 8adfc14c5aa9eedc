package analysis

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"stagetrace/analysis/stage"
	"stagetrace/analysis/stats"
)

// Scenario is a question: how long would an operation take if its stages took
// another share of their time?
type Scenario struct {
	Text   string    // as it was asked
	factor []float64 // per row of the graph
}

// ParseScenario reads "net.*=0,io.fsync=0.5": patterns of stage names, in which
// * and ? stand for any characters, with what is left of them, from 0 (free)
// to 1. Of several that match a stage the last one counts. An error names the
// pattern, and the nearest stage if there is none of that name.
func ParseScenario(set *stage.Set, text string) (*Scenario, error) {
	sc := &Scenario{Text: text, factor: make([]float64, len(set.Stages)+2)}
	names := make([]string, len(sc.factor))
	for i := range names {
		sc.factor[i], names[i] = 1, rowName(set, i)
	}
	for _, part := range strings.Split(text, ",") {
		pattern, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || pattern == "" {
			return nil, fmt.Errorf("%q: not a stage and what is left of it, such as io.fsync=0.5", part)
		}
		left, err := strconv.ParseFloat(value, 64)
		if err != nil || !(left >= 0 && left <= 1) {
			return nil, fmt.Errorf("%s=%s: what is left of a stage is a number from 0 (free) to 1", pattern, value)
		}
		match, err := stage.Names(pattern, names)
		if err != nil {
			return nil, err
		}
		for _, i := range match {
			sc.factor[i] = left
		}
	}
	return sc, nil
}

// StageGain is how much shorter one operation would be without a stage.
type StageGain struct {
	Name   string `json:"name"`
	FreeNs int64  `json:"free_ns"` // if the stage took no time
	HalfNs int64  `json:"half_ns"` // if it took half as long
}

// OperationWhatIf is what a replay of one operation says.
type OperationWhatIf struct {
	Stages   []StageGain      `json:"stages"` // by falling gain; the others gain nothing
	Scenario *ScenarioOutcome `json:"scenario,omitempty"`
}

// ScenarioOutcome is one operation in a scenario. The after_ns of its stages add
// up to wall_ns, the before_ns to the recorded one: both are of the replay, which
// knows what ran beside the path.
type ScenarioOutcome struct {
	WallNs int64           `json:"wall_ns"`
	Stages []ScenarioStage `json:"stages"`
}

// ScenarioStage is a stage's part of what an operation's end depended on.
type ScenarioStage struct {
	Name     string `json:"name"`
	BeforeNs int64  `json:"before_ns"`
	AfterNs  int64  `json:"after_ns"`
}

// whatIf replays an operation with every stage in turn free and half as long, and
// in the scenario if there is one. Nil: cannot tell, because the replay of what
// was recorded does not end when the operation did.
func (g *graph) whatIf(set *stage.Set, sc *Scenario) *OperationWhatIf {
	factor := make([]float64, g.rows)
	for i := range factor {
		factor[i] = 1
	}
	wall := float64(g.wall)
	if g.replay(factor) != wall {
		return nil
	}
	out := &OperationWhatIf{Stages: []StageGain{}}
	if sc != nil {
		out.Scenario = g.scenario(set, sc)
	}
	for row, ns := range g.length {
		if ns == 0 {
			continue
		}
		factor[row] = 0
		free := wall - g.replay(factor)
		if free > 0 {
			factor[row] = 0.5
			out.Stages = append(out.Stages, StageGain{rowName(set, row), int64(free), int64(wall - g.replay(factor))})
		}
		factor[row] = 1
	}
	slices.SortFunc(out.Stages, func(a, b StageGain) int {
		if largerFirst(a.FreeNs, b.FreeNs, a.Name, b.Name) {
			return -1
		}
		return 1
	})
	return out
}

// scenario replays an operation in a scenario. The last replay was that of what
// was recorded.
func (g *graph) scenario(set *stage.Set, sc *Scenario) *ScenarioOutcome {
	before := whole(g.critical())
	out := &ScenarioOutcome{WallNs: int64(math.Round(g.replay(sc.factor))), Stages: []ScenarioStage{}}
	for row, after := range whole(g.critical()) {
		if before[row] > 0 || after > 0 {
			out.Stages = append(out.Stages, ScenarioStage{rowName(set, row), before[row], after})
		}
	}
	return out
}

// whole rounds parts so that they add up to the rounded sum.
func whole(parts []float64) []int64 {
	out := make([]int64, len(parts))
	sum, rounded := 0.0, 0.0
	for i, p := range parts {
		sum += p
		out[i] = int64(math.Round(sum) - rounded)
		rounded = math.Round(sum)
	}
	return out
}

// Gain is by how much operations would be shorter: ns, with an interval of the
// median.
type Gain struct {
	Median float64  `json:"median"`
	Lo     *float64 `json:"lo"`
	Hi     *float64 `json:"hi"`
}

func gainOf(v []float64) Gain {
	d := stats.Describe(v)
	return Gain{d.Median, d.Lo, d.Hi}
}

// WhatIf is what the replays of a target's operations say.
type WhatIf struct {
	N          int              `json:"n"`           // operations that could be replayed
	CannotTell int              `json:"cannot_tell"` // and those that could not
	Stages     []StageWhatIf    `json:"stages"`      // by falling gain; those that gain something
	Scenario   *ScenarioSummary `json:"scenario,omitempty"`
}

// StageWhatIf is how much shorter a target's operations would be without a
// stage, be it on their paths or beside them.
type StageWhatIf struct {
	Name string `json:"name"`
	Free Gain   `json:"free"`
	Half Gain   `json:"half"`
}

// ScenarioSummary is a target in the scenario that was asked for.
type ScenarioSummary struct {
	Text   string                 `json:"text"`
	Wall   Gain                   `json:"wall"` // predicted, of the traced operations
	Gain   Gain                   `json:"gain"`
	Stages []ScenarioStageSummary `json:"stages"` // by what they take then
}

// ScenarioStageSummary is medians over operations of what their end depended on.
type ScenarioStageSummary struct {
	Name   string  `json:"name"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// whatIfOf sums the replays of operations up; nil when none was made.
func whatIfOf(ops []*OperationResult, sc *Scenario) *WhatIf {
	out := &WhatIf{Stages: []StageWhatIf{}}
	free, half := perStage{}, perStage{}
	var replayed []*OperationResult
	for _, o := range ops {
		switch {
		case o.WhatIf != nil:
			replayed = append(replayed, o)
		case o.CannotTell:
			out.CannotTell++
		}
	}
	out.N = len(replayed)
	if out.N+out.CannotTell == 0 {
		return nil
	}
	for k, o := range replayed {
		for _, s := range o.WhatIf.Stages {
			free.at(s.Name, out.N)[k] = float64(s.FreeNs)
			half.at(s.Name, out.N)[k] = float64(s.HalfNs)
		}
	}
	for name := range free {
		out.Stages = append(out.Stages, StageWhatIf{name, gainOf(free[name]), gainOf(half[name])})
	}
	sort.Slice(out.Stages, func(i, j int) bool {
		a, b := &out.Stages[i], &out.Stages[j]
		return largerFirst(a.Free.Median, b.Free.Median, a.Name, b.Name)
	})
	if sc != nil && out.N > 0 {
		out.Scenario = sc.summary(replayed)
	}
	return out
}

// perStage is a value per operation for every stage, 0 where it has none.
type perStage map[string][]float64

func (p perStage) at(name string, n int) []float64 {
	if p[name] == nil {
		p[name] = make([]float64, n)
	}
	return p[name]
}

func (sc *Scenario) summary(ops []*OperationResult) *ScenarioSummary {
	before, after := perStage{}, perStage{}
	var wall, gain []float64
	for k, o := range ops {
		x := o.WhatIf.Scenario
		wall, gain = append(wall, float64(x.WallNs)), append(gain, float64(o.WallNs-x.WallNs))
		for _, s := range x.Stages {
			before.at(s.Name, len(ops))[k] = float64(s.BeforeNs)
			after.at(s.Name, len(ops))[k] = float64(s.AfterNs)
		}
	}
	out := &ScenarioSummary{Text: sc.Text, Wall: gainOf(wall), Gain: gainOf(gain), Stages: []ScenarioStageSummary{}}
	for name := range after {
		out.Stages = append(out.Stages, ScenarioStageSummary{name, stats.Median(before[name]), stats.Median(after[name])})
	}
	sort.Slice(out.Stages, func(i, j int) bool {
		a, b := &out.Stages[i], &out.Stages[j]
		return largerFirst(a.After, b.After, a.Name, b.Name)
	})
	return out
}
