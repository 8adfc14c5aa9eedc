package workloads

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// collector keeps the garbage collector of this process, which would take CPUs
// away from an operation that has nothing to do with it, out of the
// operations: it collects between them, before the runtime would. The runtime
// still may, so that one long recorded operation cannot eat the machine.
type collector struct {
	sample []metrics.Sample
	live   uint64 // heap bytes after the last collection
}

const (
	heapGrowth = 800      // percent: when the runtime collects by itself
	heapSlack  = 16 << 20 // bytes the heap may grow by in any case
)

// newCollector changes the process's settings; the function puts them back.
func newCollector() (c *collector, restore func()) {
	c = &collector{sample: []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}}
	old := debug.SetGCPercent(heapGrowth)
	c.collect()
	return c, func() { debug.SetGCPercent(old) }
}

// betweenOperations collects when the heap has grown to half of what would
// make the runtime do it.
func (c *collector) betweenOperations() {
	if c.heap() > c.live*(heapGrowth/2)/100+heapSlack {
		c.collect()
	}
}

func (c *collector) collect() {
	runtime.GC()
	c.live = c.heap()
}

func (c *collector) heap() uint64 {
	metrics.Read(c.sample)
	if c.sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return c.sample[0].Value.Uint64()
}
