package workloads

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// dockerAPI starts containers by the Engine API: create, wait for the
// removal, start.
//
// Connections are kept alive from one operation to the next. Two are needed,
// since the wait holds one; the second is dialled in the first operation.
// Between operations the client's goroutines sleep in a read.
type dockerAPI struct{}

func (dockerAPI) open(context.Context, *dockerInstance) error { return nil }
func (dockerAPI) prepare() error                              { return nil }
func (dockerAPI) close() error                                { return nil }

// run asks for the wait before the start: a container that lives for a
// millisecond may otherwise be gone before anyone waits for it. ContainerWait
// returns when the response's headers are there, which the daemon sends once
// it is registered as a waiter (moby, api/server/router/container,
// postContainersWait), so nothing can slip through.
func (dockerAPI) run(ctx context.Context, d *dockerInstance) (int, error) {
	ctx, cancel := patient(ctx, cancelGrace)
	defer cancel()
	made, err := d.client.ContainerCreate(ctx, d.createOptions(true))
	if err != nil {
		return 0, fmt.Errorf("create container: %w", err)
	}
	wait := d.client.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	if _, err := d.client.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		cancel()
		_, _ = awaitContainer(wait) // its goroutine must not stay behind
		return 0, fmt.Errorf("start container: %w", err)
	}
	code, err := awaitContainer(wait)
	if err != nil {
		return code, fmt.Errorf("wait for container: %w", err)
	}
	return code, nil
}

func (d *dockerInstance) createOptions(autoRemove bool) client.ContainerCreateOptions {
	o := client.ContainerCreateOptions{
		Name:   d.name,
		Config: &container.Config{Image: d.image.ref, Labels: d.labels, Cmd: []string{d.program}},
		HostConfig: &container.HostConfig{AutoRemove: autoRemove, NetworkMode: container.NetworkMode(d.network),
			Resources: container.Resources{Ulimits: d.ulimits}},
	}
	for i := range d.mounts {
		o.HostConfig.Mounts = append(o.HostConfig.Mounts, mount.Mount{Type: mount.TypeBind, Source: mountSource, Target: mountTarget(i), ReadOnly: true})
	}
	return o
}

// do asks one thing, or create and start one after the other for a launch.
func (a dockerAPI) do(ctx context.Context, d *dockerInstance, v cliVerb) error {
	ctx, cancel := patient(ctx, cancelGrace)
	defer cancel()
	var err error
	switch v {
	case verbLaunch:
		if err = a.do(ctx, d, verbCreate); err == nil {
			err = a.do(ctx, d, verbStart)
		}
		return err
	case verbCreate:
		_, err = d.client.ContainerCreate(ctx, d.createOptions(false))
	case verbStart:
		_, err = d.client.ContainerStart(ctx, d.name, client.ContainerStartOptions{})
	case verbPause:
		_, err = d.client.ContainerPause(ctx, d.name, client.ContainerPauseOptions{})
	case verbUnpause:
		_, err = d.client.ContainerUnpause(ctx, d.name, client.ContainerUnpauseOptions{})
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("%s container: %w", v, err)
	}
	return nil
}

// exec makes an exec, starts it, reads its output to the end, and asks for the
// exit code.
func (dockerAPI) exec(ctx context.Context, d *dockerInstance, program string) (int, error) {
	ctx, cancel := patient(ctx, cancelGrace)
	defer cancel()
	made, err := d.client.ExecCreate(ctx, d.name, client.ExecCreateOptions{Cmd: []string{program}, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return 0, fmt.Errorf("create exec: %w", err)
	}
	stream, err := d.client.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return 0, fmt.Errorf("start exec: %w", err)
	}
	defer stream.Close()
	if _, err := io.Copy(io.Discard, stream.Reader); err != nil {
		return 0, fmt.Errorf("output of exec: %w", err)
	}
	for {
		st, err := d.client.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
		if err != nil {
			return 0, fmt.Errorf("inspect exec: %w", err)
		}
		if !st.Running { // the end of the output may come before the news of the exit
			return st.ExitCode, nil
		}
	}
}

// awaitContainer takes the answer of a wait: the container's exit code. One
// of the channels always delivers, at the latest when the wait's context
// ends, so there is nothing else to select on.
func awaitContainer(w client.ContainerWaitResult) (int, error) {
	select {
	case r := <-w.Result:
		if r.Error != nil {
			return int(r.StatusCode), errors.New(r.Error.Message)
		}
		return int(r.StatusCode), nil
	case err := <-w.Error:
		return 0, err
	}
}
