package workloads

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Labels of every container we make. The first says which process made it,
// the others on which machine and for which of its instances.
const (
	labelRun      = "stagetrace.run"      // <pid>-<starttime>
	labelOwner    = "stagetrace.owner"    // runOwner.Key
	labelInstance = "stagetrace.instance" // <engine>-<path>-<network>-...
)

// dockerRunner is one way to carry an operation out: the API or the CLI.
type dockerRunner interface {
	open(ctx context.Context, d *dockerInstance) error
	prepare() error
	// run creates, starts, waits for and thereby removes d.name. The code is
	// the container's.
	run(ctx context.Context, d *dockerInstance) (int, error)
	// do is everything that has no answer but that it was done.
	do(ctx context.Context, d *dockerInstance, v cliVerb) error
	exec(ctx context.Context, d *dockerInstance, program string) (int, error)
	close() error
}

// dockerPaths has one row per value of the parameter path.
func dockerPaths() map[string]func() (dockerRunner, error) {
	return map[string]func() (dockerRunner, error){
		"api": func() (dockerRunner, error) { return dockerAPI{}, nil },
		"cli": newDockerCLI,
	}
}

// findTime bounds what finding out whether a daemon is there may take.
const findTime = 5 * time.Second

// dockerInstance carries out container starts on one daemon, by one path and
// with one network.
type dockerInstance struct {
	engine   dockerEngine
	endpoint dockerEndpoint
	network  string
	mounts   int
	ulimits  []*container.Ulimit
	path     string
	exitCode byte // of the probe program
	runner   dockerRunner

	owner  runOwner
	labels map[string]string
	client *client.Client
	image  dockerImage

	name    string // of the container of the operation under way; "" when none
	program string // that it runs
	doubted bool   // that operation was given up: the daemon may still be at it
}

func newDockerAt(e dockerEngine, ep dockerEndpoint, p Params) (Instance, error) {
	d, err := newDockerInstance(e, ep, p)
	if err != nil {
		return nil, err
	}
	return withOperation(p, d)
}

func newDockerInstance(e dockerEngine, ep dockerEndpoint, p Params) (*dockerInstance, error) {
	d := &dockerInstance{engine: e, endpoint: ep, network: orDefault(p["network"], "bridge"), path: orDefault(p["path"], "api")}
	open, ok := dockerPaths()[d.path]
	if !ok {
		known := slices.Sorted(maps.Keys(dockerPaths()))
		return nil, fmt.Errorf("docker: path %q: want one of %s", d.path, strings.Join(known, ", "))
	}
	var err error
	if d.runner, err = open(); err != nil {
		return nil, err
	}
	if d.owner, err = currentOwner(); err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	d.labels = map[string]string{
		labelRun:      d.owner.Run(),
		labelOwner:    d.owner.Key(),
		labelInstance: e.name + "-" + instanceName(p),
	}
	if d.mounts, err = mountCount(p); err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	if e.name == podmanName && !mayRaiseLimits() {
		d.ulimits = []*container.Ulimit{{Name: "nofile", Soft: 1024, Hard: 1024}, {Name: "nproc", Soft: 1024, Hard: 1024}}
	}
	return d, nil
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func (d *dockerInstance) labelNames() []string { return slices.Sorted(maps.Keys(d.labels)) }

// Setup connects, removes what dead runs left, and loads the image.
func (d *dockerInstance) Setup(ctx context.Context) error {
	if err := d.connect(); err != nil {
		return err
	}
	version, err := d.client.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return fmt.Errorf("docker at %s: %w", d.client.DaemonHost(), err)
	}
	if version.Os != "linux" {
		return fmt.Errorf("docker at %s: %s containers: %w", d.client.DaemonHost(), version.Os, errors.ErrUnsupported)
	}
	if err := d.removeLeftovers(ctx); err != nil {
		return err
	}
	probe, err := newProbeImage(version.Arch, d.exitCode)
	if err != nil {
		return err
	}
	d.image = dockerImage{ref: probe.Tag, mark: d.imageMark()}
	if err := d.image.load(ctx, d.client, probe); err != nil {
		return err
	}
	if err := removeImageLeftovers(ctx, d.client, d.owner); err != nil {
		return err
	}
	return d.runner.open(ctx, d)
}

// imageMark is the tag that says that this instance uses the image.
func (d *dockerInstance) imageMark() string {
	return markRepository + ":" + d.owner.Key() + "-" + d.labels[labelInstance]
}

func (d *dockerInstance) connect() error {
	if d.client != nil {
		return nil
	}
	var err error
	d.client, err = d.endpoint.connect()
	return err
}

// Prepare names the container.
func (d *dockerInstance) Prepare(ctx context.Context, op int) error {
	return d.adopt(ctx, op, probeProgram)
}

func (d *dockerInstance) adopt(ctx context.Context, op int, program string) error {
	if d.client == nil || d.image.ref == "" {
		return errors.New("docker: not set up")
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	d.name = fmt.Sprintf("stagetrace-%s-%s-%d", d.owner.Run(), d.labels[labelInstance], op)
	d.program = program
	return d.runner.prepare()
}

// Do is one container: created, started, exited, removed. What is under way
// when ctx ends may take cancelGrace longer to end well.
func (d *dockerInstance) Do(ctx context.Context, op int) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	code, err := d.runner.run(ctx, d)
	if err != nil {
		d.doubted = true
		return Outcome{ExitCode: code}, err
	}
	return Outcome{Units: 1, ExitCode: code}, nil
}

// Conclude checks that the container is gone, and removes it when it is not.
func (d *dockerInstance) Conclude(ctx context.Context, op int, out Outcome) error {
	name, there, err := d.name, false, error(nil)
	if name != "" && !d.doubted {
		_, err = d.client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		there = err == nil
		if cerrdefs.IsNotFound(err) {
			err, d.name = nil, ""
		}
	}
	if err := errors.Join(err, d.settle(ctx)); err != nil {
		return fmt.Errorf("container %s: %w", name, err)
	}
	if there {
		return fmt.Errorf("container %s: still there after its removal was reported", name)
	}
	return nil
}

// settle removes the container of an operation that did not end well.
func (d *dockerInstance) settle(ctx context.Context) error {
	if d.name == "" || d.client == nil {
		return nil
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if err := d.removeDoubted(ctx); err != nil {
		return err
	}
	d.name, d.doubted = "", false
	return nil
}

// removeDoubted removes the container of that name. When the request for it
// was given up, the daemon may be about to make it: there is no event for
// "never", so it is looked for a little longer.
func (d *dockerInstance) removeDoubted(ctx context.Context) error {
	looks := 1
	if d.doubted {
		looks = 5
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ; looks > 0; looks-- {
		switch err := removeContainer(ctx, d.client, d.name); {
		case err == nil:
			return nil
		case !cerrdefs.IsNotFound(err):
			return err
		}
		if looks == 1 {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Cleanup removes this instance's containers, what dead runs left, and the
// image when no other run uses it and it was not there before us.
func (d *dockerInstance) Cleanup(ctx context.Context) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	if err := d.connect(); err != nil {
		return errors.Join(err, d.runner.close())
	}
	err := errors.Join(
		d.settle(ctx),
		removeLabelled(ctx, d.client, func(l map[string]string) bool {
			return l[labelOwner] == d.labels[labelOwner] && l[labelInstance] == d.labels[labelInstance]
		}),
		d.removeLeftovers(ctx),
		d.image.unload(ctx, d.client),
		removeImageLeftovers(ctx, d.client, d.owner),
		d.runner.close(),
		d.client.Close(),
	)
	d.client, d.image = nil, dockerImage{}
	return err
}

// removeLeftovers removes the containers of dead runs.
func (d *dockerInstance) removeLeftovers(ctx context.Context) error {
	return removeLabelled(ctx, d.client, func(l map[string]string) bool {
		o, err := parseOwner(l[labelOwner])
		return err == nil && o.DeadTo(d.owner)
	})
}

// removeLabelled removes the containers of ours whose labels match.
func removeLabelled(ctx context.Context, c *client.Client, match func(map[string]string) bool) error {
	list, err := c.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", labelOwner),
	})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var errs []error
	for _, s := range list.Items {
		if !match(s.Labels) {
			continue
		}
		if err := removeContainer(ctx, c, s.ID); err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove container %s: %w", s.ID[:min(12, len(s.ID))], err))
		}
	}
	return errors.Join(errs...)
}

// removeContainer ends and removes a container, and returns once it is gone.
// Someone else (--rm, or an earlier request) may be removing it already.
func removeContainer(ctx context.Context, c *client.Client, id string) error {
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := c.ContainerWait(waitCtx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	_, err := c.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !cerrdefs.IsConflict(err) {
		cancel()
		_, _ = awaitContainer(wait)
		return err
	}
	if _, err := awaitContainer(wait); err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	return nil
}
