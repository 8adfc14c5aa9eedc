package workloads

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"
)

// dockerCLI starts containers with `docker run --rm`, as people do.
type dockerCLI struct {
	process quietProcess
}

func newDockerCLI() (dockerRunner, error) {
	path, err := findDockerCLI()
	if err != nil {
		return nil, err
	}
	return &dockerCLI{process: quietProcess{path: path, env: os.Environ()}}, nil
}

// findDockerCLI resolves the client once, so that no operation pays for the
// search along PATH.
func findDockerCLI() (string, error) {
	path, err := exec.LookPath("docker")
	if err != nil {
		return "", fmt.Errorf("docker CLI: %w (with path=api it is not needed)", err)
	}
	return filepath.Abs(path)
}

// open also runs the client once: it shows that it works, and Go's one-time
// probing for pidfds (os.checkPidfd) is then not part of an operation.
func (c *dockerCLI) open(ctx context.Context, d *dockerInstance) error {
	if d.engine.sockets != nil { // not where the client would look by itself
		c.process.env = append(c.process.env, client.EnvOverrideHost+"="+d.endpoint.Host)
	}
	if err := c.process.open(); err != nil {
		return fmt.Errorf("docker CLI: %w", err)
	}
	code, err := c.process.run(ctx, "--version")
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, c.process.message())
	}
	if err != nil {
		return fmt.Errorf("docker CLI: %s --version: %w", c.process.path, err)
	}
	return nil
}

func (c *dockerCLI) prepare() error { return c.process.reset() }

func (c *dockerCLI) close() error { return c.process.close() }

// run starts the container and waits until the client exits, which is when
// the daemon has removed it. The client's own failures have exit codes 125 to
// 127 and a message that begins with its name; a container may exit with
// these codes too, silently.
func (c *dockerCLI) run(ctx context.Context, d *dockerInstance) (int, error) {
	return c.call(ctx, d, verbRun, d.program)
}

func (c *dockerCLI) do(ctx context.Context, d *dockerInstance, v cliVerb) error {
	code, err := c.call(ctx, d, v, d.program)
	if err == nil && code != 0 {
		err = fmt.Errorf("docker %s: exit code %d: %s", v, code, c.process.message())
	}
	return err
}

func (c *dockerCLI) exec(ctx context.Context, d *dockerInstance, program string) (int, error) {
	return c.call(ctx, d, verbExec, program)
}

func (c *dockerCLI) call(ctx context.Context, d *dockerInstance, v cliVerb, program string) (int, error) {
	var extra []string
	for _, k := range d.labelNames() {
		extra = append(extra, "--label", k+"="+d.labels[k])
	}
	args := dockerArguments(v, cliContainer{name: d.name, image: d.image.ref, program: program, network: d.network, mounts: d.mounts}, extra)
	code, err := c.process.run(ctx, args...)
	if err != nil {
		return code, err
	}
	if code < 125 || code > 127 {
		return code, nil
	}
	msg := strings.TrimPrefix(c.process.message(), "docker: ")
	if msg == "" {
		return code, nil
	}
	msg, _, _ = strings.Cut(msg, " Run 'docker run --help'") // the same for every error
	return code, fmt.Errorf("docker %s: exit code %d: %s", v, code, msg)
}
