package analysis

import (
	"reflect"
	"testing"

	"stagetrace/tracer/tracetest"
)

// TestFunctionCalls: calls count for the operation in which they begin, by name;
// a call that does not return in it lasts until its end.
func TestFunctionCalls(t *testing.T) {
	tr := tracetest.Parse(t, `meta begin=0 end=300us selfpid=9
task drv tid=9 comm=driver
0      0 status drv state=running
10us   0 op-begin drv name=t flow=1
20us   0 begin drv class=user name=outer
30us   0 begin drv class=user name=inner
35us   0 end drv class=user name=inner
40us   0 begin drv class=user name=inner
50us   0 end drv class=user name=inner
60us   0 end drv class=user name=outer
80us   0 begin drv class=user name=outer
100us  0 op-end drv name=t flow=1
120us  0 end drv class=user name=outer
200us  0 op-begin drv name=t flow=2
250us  0 op-end drv name=t flow=2
`)
	var got [][]FunctionResult
	an := New(linuxSet(t), Options{})
	if err := an.Add(tr, func(op *Operation) error { got = append(got, op.Functions); return nil }); err != nil {
		t.Fatal(err)
	}
	us := int64(1000)
	want := [][]FunctionResult{{{Name: "inner", Calls: 2, Ns: 15 * us}, {Name: "outer", Calls: 2, Ns: 60 * us}}, nil}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("functions are %+v, want %+v", got, want)
	}
	var names []string
	for _, m := range an.Result(Result{}).Summary[0].Metrics {
		names = append(names, m.Name)
	}
	if want := []string{"calls of inner", "a call of inner", "calls of outer", "a call of outer"}; !reflect.DeepEqual(names, want) {
		t.Errorf("metrics are %q, want %q", names, want)
	}
}
