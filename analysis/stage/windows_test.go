package stage

import (
	"fmt"
	"strings"
	"testing"

	"stagetrace/tracer"
)

func TestWindows(t *testing.T) {
	const (
		exec, exit, begin, end, woken, wakes = MomentExec, MomentExit, MomentBegin, MomentEnd, MomentWoken, MomentWakes
	)
	type at struct {
		time tracer.Time
		what MomentKind
		name string // span: "CALL PATH"; woken and wakes: a task
	}
	// A client: starts at 100, connects at 150, asks, is woken by the daemon
	// three times, and ends at 900.
	life := []at{{100, exec, ""}, {120, begin, "connect"}, {130, end, "connect /run/nscd"}, {150, begin, "connect"}, {155, wakes, "daemon"},
		{160, end, "connect /run/docker.sock"}, {200, woken, "daemon"}, {250, exit, ""}, {300, begin, "read"}, {310, end, "read"},
		{400, woken, "daemon"}, {450, begin, "write"}, {460, end, "write"}, {500, begin, "read"}, {510, end, "read"}, {550, woken, "other"},
		{600, woken, "daemon"}, {650, begin, "write"}, {660, end, "write"}, {880, exit, ""}}
	for _, c := range []struct {
		rule, want string
		life       []at
	}{
		{"from: exec, until: {syscall: connect, path: '**/docker.sock'}", "100-150", life},
		{"from: exec, until: {syscall: connect, path: '**/docker.sock', at: end}", "100-160", life},
		{"from: {syscall: connect, path: '/run/*'}, until: exit", "130-880", life},
		{"from: {syscall: connect, path: '/run/*', at: begin}, until: exit", "120-880", life},
		{"from: {last: {woken-by: daemon}}, until: exit", "600-880", life},
		{"from: {first: {woken-by: daemon}}, until: exit", "200-880", life},
		{"from: exec, until: [{first: {woken-by: daemon}}, {first: {wakes: daemon}}]", "100-155", life},
		{"until: {woken-by: daemon}", "100-200", life},
		{"from: {syscall: read}, until: {syscall: write}", "310-450 510-650", life},
		{"from: {last: {syscall: read}}, until: exit", "510-880", life},
		{"from: exec, until: {last: {syscall: write}}", "100-650", life},
		{"from: {syscall: read}, until: {syscall: read}", "310-500 510-900", life},
		{"from: {syscall: write}, until: {syscall: fsync}", "460-900", life},
		{"from: {syscall: fsync}, until: exit", "", life},
		{"from: exit", "880-900", life},
		{"from: exec, until: exit", "", []at{{300, woken, "daemon"}}}, // executed before the recording began
		{"from: exec, until: exit", "", []at{{900, exec, ""}}},        // the next program's
		{"until: {syscall: read}", "100-900", nil},
	} {
		text := "set: x\nroles:\n  - {role: daemon, when: [{task: daemon}]}\n  - {role: client, when: [{task: client}]}\nstages:\n" +
			"  - {stage: a.b, title: T, when: [{role: client, " + c.rule + "}]}\n"
		f, err := Parse("x", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		s, err := Compose(nil, []*File{f})
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		w := newWorld()
		tasks := map[string]tracer.TaskID{}
		for _, n := range []string{"client", "daemon", "other"} {
			tasks[n] = w.process(n, "", "/"+n+" "+n)
			w.TaskInfo(tasks[n]).Images[0].Comm = n
		}
		var moments []Moment
		for _, a := range c.life {
			mo := Moment{Time: a.time, Task: tasks["client"], What: a.what}
			if a.what == begin || a.what == end {
				name, path, _ := strings.Cut(a.name, " ")
				mo.Class, mo.Name = tracer.ClassSyscall, w.String(name)
				if path != "" {
					mo.Args = w.Args(tracer.Args{{Key: "path", Value: path}})
				}
			}
			moments = append(moments, mo)
		}
		m := s.Bind(w.Trace())
		for i, a := range c.life {
			if a.what == woken || a.what == wakes {
				moments[i].Waker = m.Actor(tasks[a.name], 1)
			}
		}
		client, daemon := m.Actor(tasks["client"], 1), m.Actor(tasks["daemon"], 1)
		if !m.HasWindows(client) || m.HasWindows(daemon) || m.HasWindows(0) || m.Windows(daemon, 100, 900, moments) != nil {
			t.Errorf("%s: asks about the wrong processes", c.rule)
		}
		var got []string
		for _, win := range m.Windows(client, 100, 900, moments) {
			got = append(got, fmt.Sprintf("%d-%d", win.Begin, win.End))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %s, want %s", c.rule, g, c.want)
		}
		sit := Situation{Actor: client, State: tracer.StateRunning, Wait: NoWait}
		if m.Stage(&sit) != NoStage {
			t.Errorf("%s: holds outside of its window", c.rule)
		}
		sit.Windows = 1
		if m.Stage(&sit) != 0 {
			t.Errorf("%s: does not hold inside of its window", c.rule)
		}
	}
}
