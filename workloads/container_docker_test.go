package workloads

import (
	"context"
	"errors"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// requireDocker gives a client of the daemon. Where CI says that there has to
// be one, its absence fails the test.
func requireDocker(t *testing.T) *client.Client {
	t.Helper()
	if testing.Short() {
		t.Skip("starts containers")
	}
	f := findDockerAt(context.Background(), dockerEngines()[0], osDockerEnv())
	if !f.OK {
		skipOrFail(t, "docker: "+f.Why)
	}
	ep, err := osDockerEnv().resolve()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ep.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func skipOrFail(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// dockerFor makes an instance that is cleaned up when the test ends; what it
// may have left behind then fails the test.
func dockerFor(t *testing.T, c *client.Client, path, network string) *dockerInstance {
	t.Helper()
	ep, err := osDockerEnv().resolve()
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDockerInstance(dockerEngines()[0], ep, Params{"path": path, "network": network})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Cleanup(context.Background()); err != nil {
			t.Errorf("cleanup: %v", err)
		}
		assertNoContainers(t, c, d.owner)
	})
	return d
}

func assertNoContainers(t *testing.T, c *client.Client, o runOwner) {
	t.Helper()
	list, err := c.ContainerList(context.Background(), client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", labelRun+"="+o.Run()),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		t.Errorf("container %v is still there: %s", s.Names, s.Status)
	}
}

func assertNoImage(t *testing.T, c *client.Client, ref string) {
	t.Helper()
	if tags, err := imageTags(context.Background(), c, ref); !cerrdefs.IsNotFound(err) {
		t.Errorf("image %s is still there: tags %v, %v", ref, tags, err)
	}
}

func TestFindDocker(t *testing.T) {
	requireDocker(t)
	f := findDockerAt(context.Background(), dockerEngines()[0], osDockerEnv())
	if !f.OK || f.Where == "" || !strings.Contains(f.Version, "API 1.") {
		t.Errorf("found %+v", f)
	}
	if f.Why != "" || f.Hint != "" {
		t.Errorf("reasons for what works: %+v", f)
	}
}

func TestDocker(t *testing.T) {
	c := requireDocker(t)
	ctx := context.Background()
	for path := range dockerPaths() {
		for _, network := range []string{"none", "bridge", "host"} {
			t.Run(path+"/"+network, func(t *testing.T) {
				d := dockerFor(t, c, path, network)
				if err := d.Setup(ctx); err != nil {
					t.Fatal(err)
				}
				ref := d.image.ref
				for op := 1; op <= 3; op++ {
					if out := runOperation(t, d, op); !reflect.DeepEqual(out, Outcome{Units: 1}) {
						t.Errorf("operation %d: %+v", op, out)
					}
					assertNoContainers(t, c, d.owner)
				}
				if err := d.Cleanup(ctx); err != nil {
					t.Fatal(err)
				}
				assertNoImage(t, c, ref)
			})
		}
	}
}

func runOperation(t *testing.T, in Instance, op int) Outcome {
	t.Helper()
	ctx := context.Background()
	if err := in.Prepare(ctx, op); err != nil {
		t.Fatalf("prepare %d: %v", op, err)
	}
	// As the loop does it: the operation belongs to one thread.
	runtime.LockOSThread()
	out, err := in.Do(ctx, op)
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatalf("do %d: %v", op, err)
	}
	if err := in.Conclude(ctx, op, out); err != nil {
		t.Fatalf("conclude %d: %v", op, err)
	}
	return out
}

func TestDockerExitCode(t *testing.T) {
	c := requireDocker(t)
	for path := range dockerPaths() {
		for _, code := range []byte{7, 125} { // 125 is also what the CLI says of its own failures
			d := dockerFor(t, c, path, "none")
			d.exitCode = code
			if err := d.Setup(context.Background()); err != nil {
				t.Fatal(err)
			}
			if out := runOperation(t, d, 1); !reflect.DeepEqual(out, Outcome{Units: 1, ExitCode: int(code)}) {
				t.Errorf("%s: %+v, want exit code %d", path, out, code)
			}
		}
	}
}

func TestDockerErrorsSayTheDaemonsMessage(t *testing.T) {
	c := requireDocker(t)
	ctx := context.Background()
	for path := range dockerPaths() {
		for _, network := range []string{"no-such-network", "container:no-such-container"} {
			d := dockerFor(t, c, path, network)
			d.labels[labelInstance] = path + "-unknown" // a network name is no part of a container's name
			if err := d.Setup(ctx); err != nil {
				t.Fatal(err)
			}
			if err := d.Prepare(ctx, 1); err != nil {
				t.Fatal(err)
			}
			out, err := d.Do(ctx, 1)
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), "no such") && !strings.Contains(err.Error(), "not found") {
				t.Errorf("%s %s: %v", path, network, err)
			}
			if out.Units != 0 {
				t.Errorf("%s %s: %+v of a failed operation", path, network, out)
			}
			if err := d.Conclude(ctx, 1, out); err != nil {
				t.Errorf("%s %s: conclude: %v", path, network, err)
			}
			assertNoContainers(t, c, d.owner)
		}
	}
}

func TestDockerCancel(t *testing.T) {
	c := requireDocker(t)
	for path := range dockerPaths() {
		for _, after := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond} {
			d := dockerFor(t, c, path, "bridge")
			if err := d.Setup(context.Background()); err != nil {
				t.Fatal(err)
			}
			ref := d.image.ref
			ctx, cancel := context.WithTimeout(context.Background(), after)
			if err := d.Prepare(context.Background(), 1); err != nil {
				t.Fatal(err)
			}
			out, err := d.Do(ctx, 1)
			if (err == nil) != (out.Units == 1) {
				t.Errorf("%s after %v: %+v, %v", path, after, out, err)
			}
			if after == 0 && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: started although it was cancelled: %v", path, err)
			}
			cancel()
			// The loop's own context may be dead as well.
			if err := d.Cleanup(ctx); err != nil {
				t.Errorf("%s after %v: cleanup: %v", path, after, err)
			}
			assertNoContainers(t, c, d.owner)
			assertNoImage(t, c, ref)
		}
	}
}

// A client that is killed in the middle leaves the daemon at work: the worst
// that a cancelled operation comes to.
func TestDockerGivenUp(t *testing.T) {
	c := requireDocker(t)
	d := dockerFor(t, c, "api", "bridge")
	if err := d.Setup(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := d.Prepare(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, _ = c.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: d.name, Config: &container.Config{Image: d.image.ref, Labels: d.labels}, HostConfig: &container.HostConfig{},
	})
	d.doubted = true
	if err := d.Cleanup(ctx); err != nil {
		t.Fatal(err)
	}
	assertNoContainers(t, c, d.owner)
}

func TestDockerRemovesLeftoversOfDeadRuns(t *testing.T) {
	c := requireDocker(t)
	ctx := context.Background()
	dead := deadOwner(t)
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	probe, err := newProbeImage(v.Arch, 9) // an image of its own
	if err != nil {
		t.Fatal(err)
	}
	image := dockerImage{ref: probe.Tag, mark: markRepository + ":" + dead.Key() + "-api-none"}
	if err := image.load(ctx, c, probe); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{labelOwner: dead.Key(), labelRun: dead.Run(), labelInstance: "api-none"}
	made, err := c.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: "stagetrace-left-" + dead.Run(), Config: &container.Config{Image: probe.Tag, Labels: labels},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		t.Fatal(err)
	}

	d := dockerFor(t, c, "api", "none")
	if err := d.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ContainerInspect(ctx, made.ID, client.ContainerInspectOptions{}); !cerrdefs.IsNotFound(err) {
		t.Errorf("the dead run's container is still there: %v", err)
	}
	assertNoImage(t, c, probe.Tag)
}

func TestDockerSharesItsImage(t *testing.T) {
	c := requireDocker(t)
	ctx := context.Background()
	a, b := dockerFor(t, c, "api", "none"), dockerFor(t, c, "api", "host")
	for _, d := range []*dockerInstance{a, b} {
		if err := d.Setup(ctx); err != nil {
			t.Fatal(err)
		}
	}
	ref := b.image.ref
	if err := a.Cleanup(ctx); err != nil {
		t.Fatal(err)
	}
	if out := runOperation(t, b, 1); out.Units != 1 {
		t.Errorf("after the other's cleanup: %+v", out)
	}
	if err := b.Cleanup(ctx); err != nil {
		t.Fatal(err)
	}
	assertNoImage(t, c, ref)
}

func TestDockerLeavesTheUsersImage(t *testing.T) {
	c := requireDocker(t)
	ctx := context.Background()
	d := dockerFor(t, c, "api", "none")
	d.exitCode = 11
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	probe, err := newProbeImage(v.Arch, d.exitCode)
	if err != nil {
		t.Fatal(err)
	}
	if err := loadImage(ctx, c, probe); err != nil {
		t.Fatal(err)
	}
	defer removeTag(ctx, c, probe.Tag)
	if err := d.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Cleanup(ctx); err != nil {
		t.Fatal(err)
	}
	if tags, err := imageTags(ctx, c, probe.Tag); err != nil || len(tags) != 1 {
		t.Errorf("the image that was there before: tags %v, %v", tags, err)
	}
}

func TestDockerMethodsAreSafeAnyTime(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent")
	ctx := context.Background()
	in, err := dockerTargets()[0].New(Params{"path": "api", "network": "none"})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Setup(ctx); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("setup without a daemon: %v", err)
	}
	if err := in.Prepare(ctx, 1); err == nil {
		t.Error("prepared without a setup")
	}
	if err := in.Conclude(ctx, 1, Outcome{}); err != nil {
		t.Errorf("conclude: %v", err)
	}
	if err := in.Cleanup(ctx); err == nil {
		t.Error("a cleanup that could not look is silent")
	}
	if _, err := dockerTargets()[0].New(Params{"path": "telepathy"}); err == nil || !strings.Contains(err.Error(), "api, cli") {
		t.Errorf("unknown path: %v", err)
	}
}

func TestDeadTags(t *testing.T) {
	me, err := currentOwner()
	if err != nil {
		t.Fatal(err)
	}
	dead := markRepository + ":" + deadOwner(t).Key() + "-api-none"
	live := markRepository + ":" + me.Key() + "-cli-none"
	for _, c := range []struct {
		tags []string
		want int
	}{
		{[]string{dead, "stagetrace-probe:a"}, 2},
		{[]string{dead, "stagetrace-probe:a", live}, 1},
		{[]string{live, "stagetrace-probe:a"}, 0},
		{[]string{"stagetrace-probe:a", "alpine:latest"}, 0},
		{[]string{dead, "alpine:latest"}, 1},
		{[]string{dead, markRepository + ":latest", "stagetrace-probe:a"}, 1},
	} {
		if got := deadTags(c.tags, me); len(got) != c.want {
			t.Errorf("%v: %v is dead, want %d of them", c.tags, got, c.want)
		}
	}
}
