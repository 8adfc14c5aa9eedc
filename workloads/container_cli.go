package workloads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cliContainer is what a command line is told about a container.
type cliContainer struct {
	name, image, program, network string
	mounts                        int
}

// cliVerb is what a client is asked to do with a container.
type cliVerb string

const (
	verbRun     cliVerb = "run"     // and wait for the end, and remove
	verbLaunch  cliVerb = "launch"  // run, and leave
	verbCreate  cliVerb = "create"  //
	verbStart   cliVerb = "start"   // what was created
	verbExec    cliVerb = "exec"    // a program, and wait for its end
	verbPause   cliVerb = "pause"   //
	verbUnpause cliVerb = "unpause" //
)

// cliEngine is an engine that is driven by its command-line client alone.
type cliEngine interface {
	// arguments are those of the client, the global ones included.
	arguments(v cliVerb, c cliContainer) []string
	// open loads the image, under a name that only this instance may take
	// away, and says how the client calls it.
	open(ctx context.Context, probe probeImage) (image string, err error)
	exists(ctx context.Context, name string) (bool, error)
	// remove ends and removes a container; of one that is gone it says nothing.
	remove(ctx context.Context, name string) error
	// close removes all of this instance; sweep all of dead runs.
	close(ctx context.Context) error
	sweep(ctx context.Context) error
}

// cliClient is a client program that is asked things outside of operations.
type cliClient struct {
	path string
	args []string // the global ones
}

// newCLIClient looks the program up.
func newCLIClient(name string, args ...string) (cliClient, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return cliClient{}, err
	}
	path, err = filepath.Abs(path)
	return cliClient{path: path, args: args}, err
}

// ask gives the lines of what the client prints. Nothing that it starts may
// outlive it: that would hold the pipe.
func (c cliClient) ask(ctx context.Context, args ...string) ([]string, error) {
	return c.give(ctx, nil, args...)
}

// give is ask with something on the client's standard input.
func (c cliClient) give(ctx context.Context, stdin []byte, args ...string) ([]string, error) {
	cmd := exec.CommandContext(ctx, c.path, slices.Concat(c.args, args)...)
	var said strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &said
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(c.path), strings.Join(args, " "), err, strings.Join(strings.Fields(said.String()), " "))
	}
	return slices.DeleteFunc(strings.Split(string(out), "\n"), func(l string) bool { return strings.TrimSpace(l) == "" }), nil
}

// cliInstance carries container operations out with a client.
type cliInstance struct {
	name    string // of the engine
	engine  cliEngine
	process quietProcess
	owner   runOwner
	prefix  string // begins the names of its containers

	opened    bool
	container cliContainer // of the operation under way; no name: none
	doubted   bool         // that operation was given up: the engine may still be at it
}

// newCLIInstance makes the instance for one set of parameters; make gets what
// it has to know of it.
func newCLIInstance(name string, client cliClient, p Params, make func(owner runOwner, prefix string) cliEngine) (*cliInstance, error) {
	c := &cliInstance{name: name, process: quietProcess{path: client.path, env: os.Environ()}}
	var err error
	if c.container.mounts, err = mountCount(p); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if c.owner, err = currentOwner(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.container.network = orDefault(p["network"], "bridge")
	c.prefix = cliPrefix + c.owner.Key() + "-" + instanceName(p)
	c.engine = make(c.owner, c.prefix)
	return c, nil
}

// cliPrefix begins the name of everything that clients make for us; the key of
// the owner follows.
const cliPrefix = "stagetrace-"

// instanceName tells the instances of one process apart.
func instanceName(p Params) string {
	return strings.Join([]string{orDefault(p["path"], "api"), orDefault(p["network"], "bridge"), orDefault(p["op"], "run"),
		orDefault(p["mounts"], "0"), orDefault(p[lane], "1")}, "-")
}

// deadName says that a name of ours belongs to a run that is no more.
func deadName(name string, me runOwner) bool {
	key, ours := strings.CutPrefix(name, cliPrefix)
	if !ours {
		return false
	}
	o, err := parseOwner(key)
	return err == nil && o.DeadTo(me)
}

func (c *cliInstance) Setup(ctx context.Context) error {
	if err := c.process.open(); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if err := c.engine.sweep(ctx); err != nil {
		return fmt.Errorf("%s: remove what an earlier run left: %w", c.name, err)
	}
	probe, err := newProbeImage(probeArch(), 0)
	if err != nil {
		return err
	}
	if c.container.image, err = c.engine.open(ctx, probe); err != nil {
		return fmt.Errorf("%s: load image: %w", c.name, err)
	}
	c.opened = true
	return nil
}

func (c *cliInstance) Prepare(ctx context.Context, op int) error {
	return c.adopt(ctx, op, probeProgram)
}

func (c *cliInstance) adopt(ctx context.Context, op int, program string) error {
	if !c.opened {
		return fmt.Errorf("%s: not set up", c.name)
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	c.container.name = c.prefix + "-" + strconv.Itoa(op)
	c.container.program = program
	return c.process.reset()
}

// Do is one `run --rm`: it returns when the container is removed.
func (c *cliInstance) Do(ctx context.Context, _ int) (Outcome, error) {
	code, err := c.call(ctx, verbRun)
	if err != nil {
		return Outcome{ExitCode: code}, err
	}
	return Outcome{Units: 1, ExitCode: code}, nil
}

// call runs the client. Its error is the client's own; a code other than 0
// without one is the container's, which is silent.
func (c *cliInstance) call(ctx context.Context, v cliVerb) (int, error) {
	code, err := c.process.run(ctx, c.engine.arguments(v, c.container)...)
	if err != nil {
		c.doubted = true
		return code, err
	}
	if code == 0 {
		return 0, nil
	}
	if msg := c.process.message(); msg != "" {
		return code, errors.Join(fmt.Errorf("%s %s: exit code %d: %s", c.name, v, code, msg), c.process.reset())
	}
	return code, nil
}

// succeed is call with the exit code 0.
func (c *cliInstance) succeed(ctx context.Context, v cliVerb) error {
	code, err := c.call(ctx, v)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s %s: exit code %d", c.name, v, code)
	}
	return err
}

func (c *cliInstance) create(ctx context.Context) error  { return c.succeed(ctx, verbCreate) }
func (c *cliInstance) start(ctx context.Context) error   { return c.succeed(ctx, verbStart) }
func (c *cliInstance) launch(ctx context.Context) error  { return c.succeed(ctx, verbLaunch) }
func (c *cliInstance) pause(ctx context.Context) error   { return c.succeed(ctx, verbPause) }
func (c *cliInstance) unpause(ctx context.Context) error { return c.succeed(ctx, verbUnpause) }

// steady has nothing to wait for: what the client says is the state.
func (c *cliInstance) steady(context.Context, bool) error { return nil }

func (c *cliInstance) exec(ctx context.Context, program string) (int, error) {
	was := c.container.program
	c.container.program = program
	defer func() { c.container.program = was }()
	return c.call(ctx, verbExec)
}

// Conclude checks that the container is gone, and removes it when it is not.
func (c *cliInstance) Conclude(ctx context.Context, _ int, out Outcome) error {
	name, there := c.container.name, false
	if name == "" {
		return nil
	}
	if !c.doubted {
		var err error
		if there, err = c.engine.exists(ctx, name); err != nil {
			return err
		}
		if !there {
			c.container.name = ""
			return nil
		}
	}
	if err := c.settle(ctx); err != nil {
		return fmt.Errorf("container %s: %w", name, err)
	}
	if there && out.Units > 0 {
		return fmt.Errorf("container %s: still there after its removal was reported", name)
	}
	return nil
}

func (c *cliInstance) settle(ctx context.Context) error {
	if c.container.name == "" {
		return nil
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if err := c.engine.remove(ctx, c.container.name); err != nil {
		return err
	}
	c.container.name, c.doubted = "", false
	return nil
}

func (c *cliInstance) Cleanup(ctx context.Context) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	c.opened = false
	return errors.Join(c.settle(ctx), c.engine.close(ctx), c.engine.sweep(ctx), c.process.close())
}
