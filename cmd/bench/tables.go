//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

var errNoTable = errors.New("it printed no table")

// mostTotal bounds what a table can add up to: what lies beyond is no time.
const mostTotal = float64(math.MaxInt64) / 2

// sum adds times up, in units of a nanosecond times unit.
type sum struct {
	ns   float64
	rows int
}

func (s *sum) add(text string, unit time.Duration) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%q is no time: %w", text, err)
	}
	s.rows++
	s.ns += v * float64(unit)
	if !(v >= 0 && s.ns < mostTotal) { // NaN, too
		return fmt.Errorf("%q is no time", text)
	}
	return nil
}

func (s *sum) total() (time.Duration, error) {
	if s.rows == 0 {
		return 0, errNoTable
	}
	return time.Duration(s.ns), nil
}

// straceTotal reads the last row of the table of strace -c:
//
//	100.00    0.084153          58      1429       125 total
func straceTotal(text []byte) (time.Duration, error) {
	var s sum
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 3 || f[len(f)-1] != "total" {
			continue
		}
		if err := s.add(f[1], time.Second); err != nil {
			return 0, err
		}
		return s.total()
	}
	return 0, errNoTable
}

// perfTotal adds up the column "total (msec)" of the tables, one a thread, of
// perf trace -s. Older versions have no column of errors, so the heading tells
// which one it is.
func perfTotal(text []byte) (time.Duration, error) {
	var s sum
	column := -1
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		switch {
		case len(f) > 1 && f[0] == "syscall" && f[1] == "calls":
			column = slices.Index(f, "total")
		case len(f) == 0: // a table ends with an empty line
			column = -1
		case column > 0 && column < len(f) && strings.HasSuffix(f[len(f)-1], "%"): // not the rules and units of the heading
			if err := s.add(f[column], time.Millisecond); err != nil {
				return 0, err
			}
		}
	}
	return s.total()
}

// engineThreads begin the names of the threads that carry docker run out.
var engineThreads = []string{"docker", "containerd", "runc"}

func ofEngine(comm string) bool {
	return slices.ContainsFunc(engineThreads, func(p string) bool { return strings.HasPrefix(comm, p) })
}

// offCPUTotal adds up what offcputime printed about the engine's threads: after
// each stack a line with the name and the id, and one with the microseconds.
//
//   - containerd-shim (26867)
//     146
func offCPUTotal(text []byte) (time.Duration, error) {
	var s sum
	ours := false
	for line := range bytes.Lines(text) {
		l := strings.TrimSpace(string(line))
		if ours {
			if err := s.add(l, time.Microsecond); err != nil {
				return 0, err
			}
		}
		name, dashed := strings.CutPrefix(l, "-  ")
		name, _, id := cutLast(name, " (")
		ours = dashed && id && strings.HasSuffix(l, ")") && ofEngine(strings.TrimSpace(name))
	}
	return s.total()
}

// bpftraceTotal adds up the map @us[stack, name] of offCPUScript, about the
// engine's threads. A key goes over several lines and ends with its value.
//
//	@us[
//	    __schedule+727
//	    schedule+90
//	, dockerd]: 1502
func bpftraceTotal(text []byte) (time.Duration, error) {
	var s sum
	inside := false
	for line := range bytes.Lines(text) {
		l := strings.TrimRight(string(line), "\r\n")
		inside = inside || strings.HasPrefix(l, "@us[")
		key, value, ends := cutLast(l, "]: ")
		if !inside || !ends {
			continue
		}
		inside = false
		if _, comm, ok := cutLast(key, ", "); ok && ofEngine(comm) {
			if err := s.add(value, time.Microsecond); err != nil {
				return 0, err
			}
		}
	}
	return s.total()
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
