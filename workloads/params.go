package workloads

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// clone is a copy, so that what is set in it is not set for others.
func (p Params) clone() Params {
	c := maps.Clone(p)
	if c == nil {
		c = Params{}
	}
	return c
}

// Resolve checks given values against the workload's parameters and fills the
// defaults in.
func (w Workload) Resolve(given map[string]string) (Params, error) {
	p := make(Params, len(w.Params))
	for _, d := range w.Params {
		p[d.Name] = d.Default
	}
	for name, value := range given {
		d, ok := w.param(name)
		if !ok {
			return nil, fmt.Errorf("workload %s has no parameter %q (it has: %s)", w.Name, name, w.paramNames())
		}
		if len(d.Values) > 0 && !slices.Contains(d.Values, value) {
			return nil, fmt.Errorf("parameter %s of %s: %q is none of %s", name, w.Name, value, strings.Join(d.Values, ", "))
		}
		p[name] = value
	}
	return p, nil
}

func (w Workload) param(name string) (Param, bool) {
	for _, d := range w.Params {
		if d.Name == name {
			return d, true
		}
	}
	return Param{}, false
}

func (w Workload) paramNames() string {
	if len(w.Params) == 0 {
		return "none"
	}
	names := make([]string, len(w.Params))
	for i, d := range w.Params {
		names[i] = d.Name
	}
	return strings.Join(names, ", ")
}
