package stage

import (
	"strings"
	"testing"

	"stagetrace/tracer"
)

// world builds a trace to ask a matcher about.
type world struct {
	*tracer.Builder
	tid   int32
	tasks map[string]tracer.TaskID
}

func newWorld() *world {
	w := &world{Builder: tracer.NewBuilder(), tid: 100, tasks: map[string]tracer.TaskID{}}
	w.Meta.SelfPID = 7
	w.Meta.Begin, w.Meta.End = 1, 1_000_000
	return w
}

// process is a process that ran programs, each "EXE ARG..." with the
// executable's path first and the argument vector after it, one per 100 ns.
func (w *world) process(name string, parent string, programs ...string) tracer.TaskID {
	w.tid++
	id := w.Task(tracer.TaskKey{TID: w.tid, Start: tracer.Time(w.tid)})
	t := w.TaskInfo(id)
	t.PID, t.NSPID, t.Comm = w.tid, w.tid, name
	if parent != "" {
		t.Parent, t.Born = w.tasks[parent], 5000
	}
	for i, p := range programs {
		words := strings.Fields(p)
		im := tracer.Image{Exe: words[0], Argv: words[1:]}
		im.Comm = words[0][strings.LastIndexByte(words[0], '/')+1:]
		if parent != "" {
			im.Time = tracer.Time(6000 + 100*i)
		} else if i > 0 {
			im.Time = tracer.Time(100 * i)
		}
		t.Images = append(t.Images, im)
	}
	w.tasks[name] = id
	return id
}

// kernelStack is frames, leaf first.
func (w *world) kernelStack(names ...string) tracer.StackID {
	var frames []uint32
	for _, n := range names {
		frames = append(frames, w.Frame(tracer.Frame{Func: w.String(n), Object: w.String("[kernel]"), Kernel: true}))
	}
	return w.Stack(frames, false)
}

// roleFixtures make a process of each role of the container set.
var roleFixtures = map[string]func(w *world) tracer.TaskID{
	"driver": func(w *world) tracer.TaskID {
		id := w.process("driver", "", "/opt/trace trace run")
		w.TaskInfo(id).PID, w.TaskInfo(id).TID = 7, 7
		return id
	},
	"kernel": func(w *world) tracer.TaskID {
		id := w.process("kworker/u8:1", "")
		w.TaskInfo(id).Kernel = true
		return id
	},
	"client": func(w *world) tracer.TaskID {
		return w.process("docker", "", "/usr/local/bin/docker docker run --rm x")
	},
	"daemon": func(w *world) tracer.TaskID { return w.process("dockerd", "", "/usr/sbin/dockerd dockerd") },
	"daemonless": func(w *world) tracer.TaskID {
		return w.process("podman", "", "/usr/bin/podman podman run --rm image")
	},
	"containerd": func(w *world) tracer.TaskID {
		return w.process("containerd", "", "/usr/bin/containerd containerd --config c")
	},
	"shim": func(w *world) tracer.TaskID {
		return w.process("shim", "", "/usr/bin/containerd-shim-runc-v2 containerd-shim-runc-v2 -namespace moby -id 1 start")
	},
	"shim-delete": func(w *world) tracer.TaskID {
		return w.process("shim-delete", "", "/usr/bin/containerd-shim-runc-v2 containerd-shim-runc-v2 -id 1 -bundle b delete")
	},
	"runtime": func(w *world) tracer.TaskID {
		return w.process("runc", "", "/usr/sbin/runc runc --root r --log-format json create --bundle b 1")
	},
	"runtime-delete": func(w *world) tracer.TaskID {
		return w.process("runc-delete", "", "/usr/sbin/runc runc --root r --log-format json delete 1")
	},
	"runtime-init": func(w *world) tracer.TaskID { return w.process("runc:[2:INIT]", "", "/usr/sbin/runc runc init") },
	"container": func(w *world) tracer.TaskID {
		id := w.process("true", "", "/usr/sbin/runc runc init", "/true /true")
		return id
	},
	"engine": func(w *world) tracer.TaskID { return w.process("trace", "", "/opt/trace trace __engine run d 1") },
	"hook": func(w *world) tracer.TaskID {
		return w.process("exe", "", "/usr/sbin/dockerd libnetwork-setkey -exec-root=/var/run/docker 1 2")
	},
	"layers": func(w *world) tracer.TaskID {
		return w.process("untar", "", "/usr/sbin/dockerd docker-untar / /var/lib/x")
	},
	"firewall": func(w *world) tracer.TaskID {
		return w.process("iptables", "", "/usr/sbin/xtables-nft-multi iptables -L")
	},
	"server": func(w *world) tracer.TaskID { return w.process("node", "", "/usr/bin/node node app.js") },
	"load":   func(w *world) tracer.TaskID { return w.process("trace", "", "/opt/trace trace __http load {}") },
	"guard": func(w *world) tracer.TaskID {
		return w.process("trace", "", "/opt/trace trace __http guard /tmp/d 1 node")
	},
	"proxy": func(w *world) tracer.TaskID {
		return w.process("docker-proxy", "", "/usr/bin/docker-proxy docker-proxy -proto tcp")
	},
}

func mustLoad(t testing.TB, names ...string) *Set {
	t.Helper()
	s, err := Load(names, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// text is the name of a stage or "-".
func (s *Set) text(id ID) string {
	if id == NoStage {
		return "-"
	}
	return s.Stages[id].Name
}

func (s *Set) waitText(id WaitID) string {
	if id == NoWait {
		return "-"
	}
	return s.Waits[id].Name
}
