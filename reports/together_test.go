package reports

import (
	"errors"
	"testing"

	"stagetrace/analysis"
)

// pass is an Input over n operations that counts how often they are made.
func pass(n int, passes *int, fail error) *Input {
	return &Input{Result: &analysis.Result{}, Operations: func(yield func(*analysis.Operation) error) error {
		*passes++
		for i := range n {
			op := &analysis.Operation{}
			op.Index = i + 1
			if err := yield(op); err != nil {
				return err
			}
		}
		return fail
	}}
}

func TestTogetherSharesOnePass(t *testing.T) {
	passes := 0
	got := make([][]int, 2)
	reader := func(k int) func(*Input) error {
		return func(in *Input) error {
			return in.Operations(func(op *analysis.Operation) error {
				got[k] = append(got[k], op.Index)
				return nil
			})
		}
	}
	none := func(*Input) error { return nil }
	if err := Together(pass(3, &passes, nil), reader(0), none, reader(1)); err != nil {
		t.Fatal(err)
	}
	if passes != 1 || len(got[0]) != 3 || len(got[1]) != 3 || got[1][2] != 3 {
		t.Errorf("%d passes gave %v", passes, got)
	}
}

func TestTogetherErrors(t *testing.T) {
	mine, theirs := errors.New("disk full"), errors.New("recording is cut")
	passes, seen := 0, 0
	quits := func(in *Input) error { return in.Operations(func(*analysis.Operation) error { return mine }) }
	reads := func(in *Input) error { return in.Operations(func(*analysis.Operation) error { seen++; return nil }) }
	err := Together(pass(4, &passes, theirs), quits, reads)
	if !errors.Is(err, mine) || !errors.Is(err, theirs) || seen != 4 {
		t.Errorf("got %v after %d operations", err, seen)
	}
	passes = 0
	if err := Together(pass(4, &passes, nil), quits); !errors.Is(err, mine) || passes != 1 {
		t.Errorf("a pass that nobody reads: %v, %d passes", err, passes)
	}
}
