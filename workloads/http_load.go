package workloads

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// httpLoad says what load a process of its own makes: httpPart "load".
type httpLoad struct {
	Place       httpPlace
	Connections int
	Window      time.Duration // that is measured
	Hold        bool          // go on after it, until standard input ends
	Rate        int           // requests per second of all connections; 0: closed loop
	Pipeline    int
	URLs        int
	Size        int64 // of a right body
}

// httpReport is what came of it.
type httpReport struct {
	Requests int           // answered rightly
	Errors   int           // connections, time-outs, answers that are not 2xx or have another size
	Took     time.Duration // of the window
	P50, P99 time.Duration // latency, in an open loop from the time a request was meant to be sent
}

func (r httpReport) metrics() []Metric {
	return []Metric{
		{Name: "requests", Unit: "1/s", Value: float64(r.Requests) / max(r.Took.Seconds(), 1e-9)},
		{Name: "errors", Value: float64(r.Errors)},
		{Name: "load p50", Unit: "ns", Value: float64(r.P50)},
		{Name: "load p99", Unit: "ns", Value: float64(r.P99)},
	}
}

// mostHold bounds a load that nobody ends.
const mostHold = time.Minute

// loadMain is the process that makes load: its report goes to standard output
// as a line of JSON.
func loadMain(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, a load")
	}
	var l httpLoad
	if err := json.Unmarshal([]byte(args[0]), &l); err != nil {
		return err
	}
	g := newGenerator(l)
	g.start()
	time.Sleep(l.Window)
	rep := g.report()
	if err := json.NewEncoder(os.Stdout).Encode(rep); err != nil {
		return err
	}
	if l.Hold {
		time.AfterFunc(mostHold, func() { os.Exit(1) })
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end too
	}
	return nil // the connections end with this process
}

// generator makes load on all connections.
type generator struct {
	httpLoad
	requests [][]byte
	began    time.Time
	measured atomic.Bool // the window is over
	lanes    []httpLane
}

// httpLane is one connection's part of the report.
type httpLane struct {
	mu        sync.Mutex
	latencies []time.Duration
	errors    int
	_         [64]byte // lanes of several threads do not share a cache line
}

func newGenerator(l httpLoad) *generator {
	g := &generator{httpLoad: l, lanes: make([]httpLane, l.Connections)}
	for i := range l.URLs {
		path := l.Place.Path
		if l.URLs > 1 {
			path = fmt.Sprintf("%s?n=%d", path, i)
		}
		g.requests = append(g.requests, httpRequest(l.Place, path))
	}
	return g
}

func (g *generator) start() {
	g.began = time.Now()
	for i := range g.lanes {
		go g.run(i)
	}
}

// report ends the window.
func (g *generator) report() httpReport {
	g.measured.Store(true)
	rep := httpReport{Took: time.Since(g.began)}
	var all []time.Duration
	for i := range g.lanes {
		l := &g.lanes[i]
		l.mu.Lock()
		all = append(all, l.latencies...)
		rep.Errors += l.errors
		l.mu.Unlock()
	}
	slices.Sort(all)
	if n := len(all); n > 0 {
		rep.Requests, rep.P50, rep.P99 = n, all[n/2], all[min(n-1, n*99/100)]
	}
	return rep
}

// run keeps one connection busy for ever. After an error it connects again, a
// little later: a server that is down is not asked as fast as one can.
func (g *generator) run(i int) {
	turn := i
	for {
		err := g.converse(i, &turn)
		if err != nil {
			g.note(i, func(l *httpLane) { l.errors++ })
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// note changes a lane while the window lasts.
func (g *generator) note(i int, change func(*httpLane)) {
	if !g.measured.Load() {
		l := &g.lanes[i]
		l.mu.Lock()
		change(l)
		l.mu.Unlock()
	}
}

// converse asks on one connection until an error or until the server closes it.
// turn counts the requests of the lane, in steps of all lanes.
func (g *generator) converse(i int, turn *int) error {
	c, err := net.DialTimeout("tcp", g.Place.Addr, httpTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	var batch bytes.Buffer
	for {
		due := g.await(*turn)
		batch.Reset()
		for range g.Pipeline {
			batch.Write(g.requests[*turn%len(g.requests)])
			*turn += len(g.lanes)
		}
		if err := c.SetDeadline(time.Now().Add(httpTimeout)); err != nil {
			return err
		}
		if _, err := c.Write(batch.Bytes()); err != nil {
			return err
		}
		for range g.Pipeline {
			a, err := readAnswer(r, nil)
			if err != nil {
				return err
			}
			took := time.Since(due)
			g.note(i, func(l *httpLane) {
				if a.ok() && a.size == g.Size {
					l.latencies = append(l.latencies, took)
				} else {
					l.errors++
				}
			})
			if a.closes {
				return nil
			}
		}
	}
}

// await waits for the time at which the request of that number is meant to be
// sent, and gives it. A late one is not forgiven: its latency counts from then.
func (g *generator) await(number int) time.Time {
	if g.Rate == 0 {
		return time.Now()
	}
	due := g.began.Add(time.Duration(float64(number) / float64(g.Rate) * float64(time.Second)))
	time.Sleep(time.Until(due))
	return due
}
