package analysis

import "slices"

// samples are the values of one target.
type samples struct {
	target   string
	untraced []float64
	traced   []float64
	stages   stageValues
	offPath  stageValues
}

// stageValues are the times of stages, one per traced operation: 0 where an
// operation has no such stage.
type stageValues map[string][]float64

func (v stageValues) add(name string, k, n int, ns int64) {
	if v[name] == nil {
		v[name] = make([]float64, n)
	}
	v[name][k] += float64(ns)
}

// of is a stage's values in n operations.
func (v stageValues) of(name string, n int) []float64 {
	if s, ok := v[name]; ok {
		return s
	}
	return make([]float64, n)
}

// collect gathers what counts, by target in order of appearance.
func collect(r *Result) []*samples {
	var out []*samples
	for _, target := range targetsOf(r) {
		s := &samples{target: target, stages: stageValues{}, offPath: stageValues{}}
		ops := counted(r, target)
		for k, op := range ops {
			s.traced = append(s.traced, float64(op.WallNs))
			for _, st := range op.Stages {
				s.stages.add(st.Name, k, len(ops), st.Ns)
			}
			for _, st := range op.OffPath {
				s.offPath.add(st.Name, k, len(ops), st.Ns)
			}
		}
		for i := range r.Untraced {
			if u := &r.Untraced[i]; u.Target == target && !u.Failed {
				s.untraced = append(s.untraced, float64(u.WallNs))
			}
		}
		out = append(out, s)
	}
	return out
}

// counted are the traced operations of a target that can stand for it: the
// rule of the summary, but never failed or incomplete ones for want of others.
func counted(r *Result, target string) []*OperationResult {
	var ops []*OperationResult
	for i := range r.Operations {
		if op := &r.Operations[i]; op.Target == target && !op.Failed && !op.Incomplete && op.LostEvents == 0 {
			ops = append(ops, op)
		}
	}
	if coldFirst(ops) {
		ops = ops[1:]
	}
	return ops
}

// pairTargets matches by name; a single target on each side is compared
// whatever they are called.
func pairTargets(base, next []*samples) (pairs [][2]*samples, lone []string) {
	if len(base) == 1 && len(next) == 1 {
		return [][2]*samples{{base[0], next[0]}}, nil
	}
	matched := map[string]bool{}
	for _, b := range base {
		i := slices.IndexFunc(next, func(n *samples) bool { return n.target == b.target })
		if i < 0 {
			lone = append(lone, b.target)
			continue
		}
		matched[b.target] = true
		pairs = append(pairs, [2]*samples{b, next[i]})
	}
	for _, n := range next {
		if !matched[n.target] {
			lone = append(lone, n.target)
		}
	}
	return pairs, lone
}
