package workloads

// block is operations that are measured in the same way, size per target.
type block struct {
	traced, warmup bool
	size           int
}

func (b block) phase() Phase {
	switch {
	case b.warmup:
		return PhaseWarmup
	case b.traced:
		return PhaseTraced
	}
	return PhaseUntraced
}

const (
	blocksWanted = 6  // of each kind: enough to be truly interleaved
	blockMost    = 10 // operations: what drifts within a block stays small
)

// blockSize is the number of operations per target and block. Every traced
// block pays for attaching, settling and detaching, so there should be few.
func (p Plan) blockSize() int {
	if p.Block > 0 {
		return p.Block
	}
	n := max(p.Runs, p.Untraced)
	return max(1, min((n+blocksWanted-1)/blocksWanted, blockMost))
}

// blocks lays the run out: the warm-up, traced when there is a recorder (from
// it the recorder learns whom to follow), then traced and untraced blocks in
// the order T U U T T U U T, which cancels a linear drift of the machine. When
// there are more of one kind, the kinds stay in proportion.
func (p Plan) blocks(recorded bool) []block {
	var list []block
	if p.Warmup > 0 {
		list = append(list, block{traced: recorded, warmup: true, size: p.Warmup})
	}
	k := p.blockSize()
	traced, untraced := p.Blocks()
	t, u := 0, 0  // blocks laid out so far
	even := false // how the next tie is decided
	for t < traced || u < untraced {
		// The kind whose next block has its middle earlier in its own row,
		// (t+1/2)/traced against (u+1/2)/untraced.
		a, b := (2*t+1)*untraced, (2*u+1)*traced
		if a == b {
			even = !even
		}
		if a < b || a == b && even {
			list = append(list, block{traced: true, size: min(k, p.Runs-t*k)})
			t++
		} else {
			list = append(list, block{size: min(k, p.Untraced-u*k)})
			u++
		}
	}
	return list
}
