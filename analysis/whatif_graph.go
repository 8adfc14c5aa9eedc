package analysis

import "stagetrace/tracer"

// noNode is the index of a node that is not there.
const noNode int32 = -1

// Rows of a graph beside those of the stages of its set.
const (
	rowFixed   int16 = -1 // nobody's stage: a stranger's time, which keeps its length
	rowInherit int16 = -2 // named by the wait that it ends; none left once a graph is complete
	rowUnnamed int16 = -3 // of node.task, and not on the path: named if the end depends on it
)

// node is a moment in the life of a task: the earliest at which what it needs
// has been done. That is its task's own moment before it, a length later, and
// what another task did. One that needs nothing is at its recorded time.
type node struct {
	at   tracer.Time   // recorded, since the operation's begin
	len  tracer.Time   // recorded, from prev
	prev int32         // its task's moment before; noNode
	from int32         // who ended its wait, queued its work, forked it; noNode
	task tracer.TaskID // whose time len is, while it has no name
	row  int16         // the stage of len, or of the wait that ends here
}

// graph is what has to be done after what in one operation. A node comes after
// all that it depends on, so one pass in order gives every time of a replay.
// (Max-plus evaluation of an activity network, as in the critical path method;
// that a what-if is a replay of the causal graph is from Yang and Miller, 1988.)
type graph struct {
	nodes  []node
	end    int32 // the operation's end
	wall   tracer.Time
	rows   int           // stages of the set, other, unknown
	other  int16         // the row of what no stage claims
	length []tracer.Time // per row: recorded, of all nodes
	times  []float64     // of the last replay, ns since the begin, per node
}

func (g *graph) add(n node) int32 {
	g.nodes = append(g.nodes, n)
	return int32(len(g.nodes) - 1)
}

// complete leaves out what the end does not depend on, lets name put one or more
// named nodes in the place of each that has no name, and adds the rows up.
func (g *graph) complete(name func(n node)) {
	g.compact()
	bare, now := g.nodes, make([]int32, len(g.nodes))
	g.nodes = make([]node, 0, len(bare))
	for i, n := range bare {
		n.prev, n.from = moved(now, n.prev), moved(now, n.from)
		if n.row == rowUnnamed {
			name(n)
		} else {
			g.add(n)
		}
		now[i] = int32(len(g.nodes) - 1)
	}
	g.end = now[g.end]
	g.inherit()
	g.compact()
	g.length = make([]tracer.Time, g.rows)
	for i := range g.nodes {
		if n := &g.nodes[i]; n.row >= 0 {
			g.length[n.row] += n.len
		}
	}
}

// moved is where a node is now.
func moved(now []int32, i int32) int32 {
	if i == noNode {
		return noNode
	}
	return now[i]
}

// inherit names what has no stage of its own: it is part of what its nearest
// waiter was doing, as on a path.
func (g *graph) inherit() {
	heir := make([]int16, len(g.nodes))
	for i := range heir {
		heir[i] = rowInherit
	}
	give := func(to int32, row int16) {
		if to != noNode && row >= 0 && heir[to] == rowInherit {
			heir[to] = row
		}
	}
	for i := len(g.nodes) - 1; i >= 0; i-- {
		n := &g.nodes[i]
		if n.row == rowInherit {
			if n.row = heir[i]; n.row == rowInherit {
				n.row = g.other
			}
		}
		if n.from != noNode && n.row >= 0 && n.row != g.other {
			heir[n.from] = n.row
		}
		give(n.from, heir[i])
		give(n.prev, heir[i])
	}
}

// compact keeps the nodes that the end depends on, and makes one of those
// between which nothing happens.
func (g *graph) compact() {
	users := make([]int32, len(g.nodes)) // how many needed nodes depend on a node
	users[g.end] = 1
	for i := len(g.nodes) - 1; i >= 0; i-- {
		if n := &g.nodes[i]; users[i] > 0 {
			if n.prev != noNode {
				users[n.prev]++
			}
			if n.from != noNode {
				users[n.from]++
			}
		}
	}
	now := make([]int32, len(g.nodes))
	kept := g.nodes[:0]
	for i := range g.nodes {
		if users[i] == 0 {
			continue
		}
		n := g.nodes[i]
		if p := n.prev; n.simple() && users[p] == 1 && kept[now[p]].simple() && kept[now[p]].row == n.row && n.row != rowUnnamed {
			before := &kept[now[p]]
			before.at, before.len = n.at, before.len+n.len
			now[i] = now[p]
			continue
		}
		n.prev, n.from = moved(now, n.prev), moved(now, n.from)
		now[i] = int32(len(kept))
		kept = append(kept, n)
	}
	g.nodes, g.end = kept, now[g.end]
}

// simple tells that a node depends on nothing but its task's moment before.
func (n *node) simple() bool { return n.prev != noNode && n.from == noNode }

// replay gives when the operation would end, in ns since its begin, if the time
// of every row were multiplied by its factor.
func (g *graph) replay(factor []float64) float64 {
	if len(g.times) < len(g.nodes) {
		g.times = make([]float64, len(g.nodes))
	}
	times := g.times
	for i := range g.nodes {
		n := &g.nodes[i]
		t := 0.0
		if n.prev == noNode && n.from == noNode {
			t = float64(n.at)
		}
		if n.prev != noNode {
			d := float64(n.len)
			if n.row >= 0 {
				d *= factor[n.row]
			}
			t = times[n.prev] + d
		}
		if n.from != noNode {
			t = max(t, times[n.from])
		}
		times[i] = t
	}
	return times[g.end]
}

// critical splits the end of the last replay, which was made with some factors,
// by row: back from the end along what came last. Its parts add up to the end.
func (g *graph) critical() []float64 {
	sums := make([]float64, g.rows)
	for i := g.end; i != noNode; {
		next := g.last(&g.nodes[i])
		before := 0.0
		if next != noNode {
			before = g.times[next]
		}
		if row := g.nodes[i].row; row >= 0 {
			sums[row] += g.times[i] - before
		} else {
			sums[g.other] += g.times[i] - before
		}
		i = next
	}
	return sums
}

// last is which of the nodes that one depends on came last.
func (g *graph) last(n *node) int32 {
	if n.from == noNode || n.prev != noNode && g.times[n.prev] > g.times[n.from] {
		return n.prev
	}
	return n.from
}
