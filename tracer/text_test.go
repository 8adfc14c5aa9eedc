package tracer

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func ExampleParseText() {
	t, err := ParseText([]byte(`
# The client asks the daemon, which works for 20us. The client waits for it.
meta  kernel=6.18 selfpid=1
task  cli tid=10 comm=docker exe=/usr/bin/docker argv=[docker run "hello world"]
task  dockerd tid=20 exe=/usr/sbin/dockerd
stack read kernel=schedule;unix_stream_read_generic;ksys_read user=syscall.read;main.main

0     0  op-begin  cli  name=docker flow=1
0     0  begin     cli  class=syscall name=mkdirat
5us   0  end       cli  class=syscall name=mkdirat args=path:/run/x
10us  0  wake      cli -> dockerd
10us  0  switch    cli -> dockerd  name=read
30us  0  wake      dockerd -> cli
35us  0  switch    dockerd -> cli  stack=read flags=preempt
0.04ms 0 op-end    cli  name=docker flow=1
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(Validate(t))
	WriteText(os.Stdout, t)
	// Output:
	// <nil>
	// meta begin=0 end=40us cpus=1 kernel=6.18 selfpid=1
	// task docker tid=10 exe=/usr/bin/docker argv=[docker run "hello world"]
	// task dockerd tid=20 exe=/usr/sbin/dockerd
	// stack s1 kernel=schedule;unix_stream_read_generic;ksys_read user=syscall.read;main.main
	// 0 0 op-begin docker name=docker flow=1
	// 0 0 begin docker class=syscall name=mkdirat
	// 5us 0 end docker class=syscall name=mkdirat args=path:/run/x
	// 10us 0 wake docker -> dockerd
	// 10us 0 switch docker -> dockerd name=read
	// 30us 0 wake dockerd -> docker
	// 35us 0 switch dockerd -> docker stack=s1 flags=preempt
	// 40us 0 op-end docker name=docker flow=1
}

func TestTablesHaveWords(t *testing.T) {
	seen := map[string]bool{}
	word := func(table, s string, i int, emptyFirst bool) {
		if s == "" && (i > 0 || !emptyFirst) {
			t.Errorf("%s %d has no name", table, i)
		}
		if s != strings.ToLower(s) || s != "" && quote(s, "") != s || seen[table+s] {
			t.Errorf("%s %d: %q is not a word of its own", table, i, s)
		}
		seen[table+s] = true
	}
	for i, k := range Kinds {
		word("kind", k.Name, i, false)
		if k.Doc == "" {
			t.Errorf("kind %s has no doc", k.Name)
		}
	}
	for i, s := range ClassNames {
		word("class", s, i, true)
	}
	for i, s := range ContextNames {
		word("ctx", s, i, false)
	}
	for i, s := range StateNames {
		word("state", s, i, false)
	}
	for i, s := range FlagNames {
		word("flag", s, i, false)
		if flagKinds[i] == 0 {
			t.Errorf("flag %s belongs to no kind", s)
		}
	}
	for _, f := range []Field{HasTask, HasPeer, HasClass, HasName, HasArgs, HasStack, HasState, HasCtx, HasFlow, HasValue} {
		if withField(f) == 0 {
			t.Errorf("no kind has field %#x", f)
		}
	}
}

// everyKind is a valid trace with an event of each kind with all its fields.
const everyKind = `
meta backend=b host=h machine=m kernel=k sleepstack=-1ns sampleperiod=1ms runns=7 probes=[a b] notes=["x y"] extra=k:v,"a:b":"c,d"
task a tid=10
task a2 tid=11 pid=10
task k tid=2 kernel parent=idle
task c tid=12 nspid=1 cgroup=/x tracer
image a at=0 exe=/bin/a comm=b
image a at=3us exe=/bin/longer-than-fifteen-bytes argv=[] cut
frame f func="x;y" object=/bin/a buildid=ab offset=0x10000
stack s kernel=schedule;"b c" user=@f;"@g" cut
stack t user=main
0 0 sync value=1700000000
0 1 status a2 name=read state=blocked stack=s flags=iowait,uninterruptible
1 0 op-begin a name=docker flow=1 flags=warmup
1 1 send a2 class=work name=fn flow=0xffff888000000000 value=3 ctx=softirq flags=inline
1.5us 1 recv k class=work name=fn flow=0xffff888000000000 value=3 ctx=hardirq
2us 0 begin a class=func name=f flow=4 value=-1 args=path:"/a b",target:/x:y
3us 0 exec a -> a2 name=/bin/longer-than-fifteen-bytes
4us 0 end a class=func name=f flow=4 value=-9223372036854775808 args=fd:3 flags=failed
5us 0 fork a -> c value=0x11
6us 0 point a class=tracepoint name=cgroup_mkdir args=path:/x flow=18446744073709551615 value=9
7us 0 wake a -> k ctx=softirq name=timer value=1 flow=77 flags=spurious
8us 0 sample a name=read stack=t ctx=nmi value=1ms
9us 0 switch a -> k state=dead stack=s name=exit seq=100
10us 0 switch k -> idle state=unknown
11us 0 switch idle -> - 
12us 0 exit c value=256 flags=failed,group
13us 0 op-end a name=docker flow=1 value=1
14us 2 lost value=3
`

func TestEveryKind(t *testing.T) {
	trace := mustParse(t, everyKind)
	if err := Validate(trace); err != nil {
		t.Fatal(err)
	}
	seen := kindSet(1 << KindNone)
	for i := range trace.Events {
		seen |= 1 << trace.Events[i].Kind
	}
	if seen != 1<<kindCount-1 {
		t.Errorf("kinds %b are missing", seen)
	}
	text := textOf(t, trace)
	again := mustParse(t, text)
	if d := difference(trace, again); d != "" {
		t.Errorf("text changes it: %s\n%s", d, text)
	}
	if text2 := textOf(t, again); text2 != text {
		t.Errorf("text is not stable:\n%s\n%s", text, text2)
	}
	if read := throughFile(t, trace); difference(trace, read) != "" {
		t.Errorf("file changes it: %s", difference(trace, read))
	}
}

func TestTextDefaults(t *testing.T) {
	trace := mustParse(t, `
task main tid=5 exe=/bin/x
task thread pid=5
task kid/9 tid=9 born=7us
10us 1 fork main -> thread
4us  0 switch main -> idle
4us  0 switch idle -> thread
4us  0 switch thread -> idle flags=preempt
12us 0 fork main -> kid/9
`)
	if err := Validate(trace); err != nil {
		t.Fatal(err)
	}
	m, main, thread, kid := trace.Meta, trace.Tasks[1], trace.Tasks[2], trace.Tasks[3]
	if m.Begin != 4000 || m.End != 12000 || m.CPUs != 2 {
		t.Errorf("meta %+v", m)
	}
	if main.PID != 5 || main.NSPID != 5 || main.Leader != 1 || main.Parent != NoTask || main.Images[0].Comm != "main" {
		t.Errorf("main %+v", main)
	}
	if thread.TID != 2 || thread.Leader != 1 || thread.Parent != 1 || thread.Born != 10000 {
		t.Errorf("thread %+v", thread)
	}
	if kid.Comm != "kid" || kid.Born != 7000 || kid.Parent != 1 {
		t.Errorf("kid %+v", kid)
	}
	for i, want := range []TaskState{StateBlocked, StateRunnable, StateRunnable} {
		if e := trace.Events[i]; e.State != want || e.Seq != uint32(i) {
			t.Errorf("event %d: state %s seq %d", i, e.State, e.Seq)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		text      string
		line, col int
		msg       string
	}{
		{"what", 1, 1, "neither"},
		{"\n  meta begin=x", 2, 14, "not a time"},
		{"meta begin", 1, 6, "needs a value"},
		{"meta cpus=3000000000", 1, 11, "32 bits"},
		{"task", 1, 5, "label"},
		{"task a\ntask a", 2, 6, "twice"},
		{"task a tid=3\ntask b tid=3", 2, 6, "another task"},
		{"task a parent=b", 1, 15, "unknown task"},
		{"task a kernel=1", 1, 8, "no value"},
		{"task a color=red", 1, 8, "unknown attribute"},
		{"task a argv=[x", 1, 13, "closing bracket"},
		{`task a comm="x`, 1, 13, "quoted"},
		{"image a at=0", 1, 7, "unknown task"},
		{"stack s kernel=@f", 1, 16, "no such frame"},
		{"stack s kernel=a;;b", 1, 18, "empty element"},
		{"0 0", 1, 4, "TIME CPU KIND"},
		{"0 x sync", 1, 3, "CPU"},
		{"0 0 swap", 1, 5, "unknown kind"},
		{"0 0 switch", 1, 11, "needs a task"},
		{"0 0 switch b", 1, 12, "unknown task"},
		{"0 0 exit idle -> idle", 1, 15, "no peer"},
		{"0 0 switch idle -> b", 1, 20, "unknown task"},
		{"0 0 exit idle stack=s", 1, 15, "exit: unknown attribute"},
		{"0 0 sample idle stack=s", 1, 23, "unknown stack"},
		{"0 0 sample idle flags=iowait,x", 1, 30, "unknown flag"},
		{"0 0 begin idle args=path", 1, 21, "key:value"},
		{"0 0 begin idle args=path:x,op:\"", 1, 31, "quoted"},
		{"1.0001us 0 sync", 1, 1, "finer"},
		{"99999999999999999999 0 sync", 1, 1, "not a time"},
		{"9999999999999s 0 sync", 1, 1, "out of range"},
	} {
		_, err := ParseText([]byte(c.text))
		var s *SyntaxError
		if !errors.As(err, &s) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if s.Line != c.line || s.Col != c.col || !strings.Contains(s.Msg, c.msg) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	_, err := ParseText([]byte("task é tid=é"))
	if want := "line 1, column 13: \"é\" is not a whole number\n  task é tid=é\n             ^"; err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]Time{"0": 0, "7": 7, "7ns": 7, "1.5us": 1500, "0.000001ms": 1, "2s": 2e9,
		"1.0000us": 1000, "-3us": -3000, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63,
		"9223372036.854775807s": 1<<63 - 1} {
		if got, err := parseTime(text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "s", ".5us", "1.us", "1.5", "1e3", "+1", "--1", "1 us", "9223372036854775808"} {
		if got, err := parseTime(bad); err == nil {
			t.Errorf("%q: %d", bad, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := Time(rapid.Int64().Draw(t, "time"))
		if got, err := parseTime(formatTime(want)); got != want || err != nil {
			t.Fatalf("%d: %s: %d, %v", want, formatTime(want), got, err)
		}
	})
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := validTrace().Draw(t, "trace")
		if err := Validate(trace); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := WriteText(&text, trace); err != nil {
			t.Fatal(err)
		}
		again, err := ParseText([]byte(text.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		if d := difference(trace, again); d != "" {
			t.Fatalf("%s\n%s", d, text.String())
		}
	})
}

func TestEventTextOfBroken(t *testing.T) {
	trace := mustParse(t, "task a")
	e := Event{Kind: KindSwitch, Task: 99, Peer: -7, Name: 1000, Args: 9, Stack: 5, Class: 200, State: 99, Ctx: 77}
	if got := trace.EventText(&e); !strings.Contains(got, "switch ?99 -> ?-7") {
		t.Error(got)
	}
	if got := trace.EventText(&Event{Kind: 250}); got != "0 0 ?250" {
		t.Error(got)
	}
}

func FuzzParseText(f *testing.F) {
	f.Add(everyKind)
	f.Add("task a\n0 0 switch idle -> a\n")
	f.Add("meta begin=0 end=5\ntask a tid=3 start=1\nframe f\nstack s user=@f;\"\"\n0 0 sample a stack=s")
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ParseText([]byte(text))
		if err != nil {
			if err.Error() == "" {
				t.Fatal("no message")
			}
			return
		}
		if Validate(trace) != nil {
			return
		}
		written := textOf(t, trace)
		if d := difference(trace, mustParse(t, written)); d != "" {
			t.Fatalf("%s\n%s", d, written)
		}
	})
}
