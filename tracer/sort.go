package tracer

import (
	"slices"
	"sort"
)

const (
	maxInsertDistance = 4096 // further than this and the events are not nearly sorted
	maxInsertMoves    = 8    // per event, on average
)

// sortEvents sorts by Event.Less in time linear in the events for the orders
// backends deliver: sorted, nearly sorted (one ring for all CPUs), or sorted
// within each CPU (a ring each). Equal events keep their order.
func sortEvents(events []Event) {
	done := insertNearlySorted(events)
	if late := len(events) - done; late*16 <= len(events) {
		insertLate(events, done)
		return
	}
	mergeCPUs(events)
}

// insertLate merges a few events at the end into the sorted ones before: what
// a backend knows only when all else is decoded.
func insertLate(events []Event, sorted int) {
	late := slices.Clone(events[sorted:])
	slices.SortStableFunc(late, compareEvents)
	end := sorted
	for i := len(late) - 1; i >= 0; i-- {
		at := sort.Search(end, func(j int) bool { return late[i].Less(&events[j]) })
		copy(events[at+i+1:], events[at:end])
		events[at+i] = late[i]
		end = at
	}
}

// insertNearlySorted is an insertion sort that gives up once it has moved
// more than a nearly sorted input needs. It returns how many events, from the
// first on, are sorted.
func insertNearlySorted(events []Event) int {
	budget := maxInsertMoves*len(events) + maxInsertDistance
	for i := 1; i < len(events); i++ {
		if !events[i].Less(&events[i-1]) {
			continue
		}
		j := i - 1
		for j > 0 && events[i].Less(&events[j-1]) {
			j--
			if i-j > maxInsertDistance {
				return i
			}
		}
		if budget -= i - j; budget < 0 {
			return i
		}
		e := events[i]
		copy(events[j+1:i+1], events[j:i])
		events[j] = e
	}
	return len(events)
}

// mergeCPUs sorts by splitting into one list per CPU and merging those.
func mergeCPUs(events []Event) {
	lists := splitCPUs(events)
	for _, l := range lists {
		if !slices.IsSortedFunc(l, compareEvents) {
			slices.SortStableFunc(l, compareEvents)
		}
	}
	heap := runHeap(lists)
	for i := len(heap)/2 - 1; i >= 0; i-- {
		heap.down(i)
	}
	for i := range events {
		events[i] = heap[0][0]
		if heap[0] = heap[0][1:]; len(heap[0]) == 0 {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		heap.down(0)
	}
}

func compareEvents(a, b Event) int {
	switch {
	case a.Less(&b):
		return -1
	case b.Less(&a):
		return 1
	}
	return 0
}

// splitCPUs copies the events into one list per CPU that has any, in order.
func splitCPUs(events []Event) [][]Event {
	counts := map[int16]int{}
	last, n := int16(0), 0 // runs of one CPU are counted without the map
	for i := range events {
		if events[i].CPU != last {
			counts[last] += n
			last, n = events[i].CPU, 0
		}
		n++
	}
	counts[last] += n
	copied := make([]Event, len(events))
	place := make([]int32, 1<<16) // list of a CPU, plus one, by its bits
	lists := make([][]Event, 0, len(counts))
	for cpu, n := range counts {
		if n == 0 {
			continue
		}
		lists = append(lists, copied[:0:n])
		copied = copied[n:]
		place[uint16(cpu)] = int32(len(lists))
	}
	for i := range events {
		l := &lists[place[uint16(events[i].CPU)]-1]
		*l = append(*l, events[i])
	}
	return lists
}

// runHeap is a binary heap of sorted, non-empty lists by their first events.
type runHeap [][]Event

func (h runHeap) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c][0].Less(&h[least][0]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
