package workloads

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// dockerLike is an engine whose client has docker's commands and that has no
// daemon, or whose daemon speaks another language: podman and nerdctl.
type dockerLike struct {
	client cliClient
	extra  []string // arguments of run and create that make it work here
	kill   []string // arguments of rm --force that keep it from waiting for SIGTERM to have an effect
	owner  runOwner
	mark   string // this instance's tag of the image
	prefix string // of its containers' names
	image  string
	ours   bool // the image was not there before us
}

// dockerArguments are those of docker, podman and nerdctl, without the global
// ones.
func dockerArguments(v cliVerb, c cliContainer, extra []string) []string {
	made := func(verb ...string) []string {
		args := append(verb, "--pull", "never", "--network", c.network, "--name", c.name)
		for i := range c.mounts {
			args = append(args, "--mount", "type=bind,src="+mountSource+",dst="+mountTarget(i)+",ro")
		}
		return append(append(args, extra...), c.image, c.program)
	}
	switch v {
	case verbRun:
		return made("run", "--rm")
	case verbLaunch:
		return made("run", "--detach")
	case verbCreate:
		return made("create")
	case verbExec:
		return []string{"exec", c.name, c.program}
	}
	return []string{string(v), c.name} // start, pause, unpause
}

func (d *dockerLike) arguments(v cliVerb, c cliContainer) []string {
	return slices.Concat(d.client.args, dockerArguments(v, c, d.extra))
}

// localName is an image's name as we give it: clients put the registry before
// it that it would be pulled from.
func localName(ref string) string {
	return strings.TrimPrefix(strings.TrimPrefix(ref, "localhost/"), "docker.io/library/")
}

// images are the tags of every image, by image.
func (d *dockerLike) images(ctx context.Context) (map[string][]string, error) {
	lines, err := d.client.ask(ctx, "images", "--no-trunc", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}")
	if err != nil {
		return nil, err
	}
	return parseImages(lines), nil
}

// parseImages reads lines "ID REPOSITORY:TAG".
func parseImages(lines []string) map[string][]string {
	all := map[string][]string{}
	for _, l := range lines {
		if f := strings.Fields(l); len(f) == 2 {
			all[f[0]] = append(all[f[0]], localName(f[1]))
		}
	}
	return all
}

func (d *dockerLike) open(ctx context.Context, probe probeImage) (string, error) {
	images, err := d.images(ctx)
	if err != nil {
		return "", err
	}
	tags := tagsBeside(images, probe.Tag)
	d.ours = len(tags) == 0 || slices.ContainsFunc(tags, isMark)
	if len(tags) == 0 {
		if _, err := d.client.give(ctx, probe.Archive, "load"); err != nil {
			return "", err
		}
	}
	d.image = probe.Tag
	if _, err := d.client.ask(ctx, "tag", probe.Tag, d.mark); err != nil {
		return "", err
	}
	return probe.Tag, nil
}

// tagsBeside are all tags of the image that has this one; none: there is no
// such image.
func tagsBeside(images map[string][]string, tag string) []string {
	for _, tags := range images {
		if slices.Contains(tags, tag) {
			return tags
		}
	}
	return nil
}

func (d *dockerLike) names(ctx context.Context) ([]string, error) {
	lines, err := d.client.ask(ctx, "ps", "--all", "--format", "{{.Names}}")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines, err
}

func (d *dockerLike) exists(ctx context.Context, name string) (bool, error) {
	names, err := d.names(ctx)
	return slices.Contains(names, name), err
}

func (d *dockerLike) remove(ctx context.Context, name string) error {
	there, err := d.exists(ctx, name)
	if err != nil || !there {
		return err
	}
	if _, err = d.client.ask(ctx, slices.Concat([]string{"rm", "--force"}, d.kill, []string{name})...); err == nil {
		return nil
	}
	// Somebody else (--rm) may have been faster.
	if there, lookErr := d.exists(ctx, name); lookErr == nil && !there {
		return nil
	}
	return err
}

// removeWhere removes the containers whose names match.
func (d *dockerLike) removeWhere(ctx context.Context, match func(name string) bool) error {
	names, err := d.names(ctx)
	errs := []error{err}
	for _, n := range names {
		if match(n) {
			errs = append(errs, d.remove(ctx, n))
		}
	}
	return errors.Join(errs...)
}

func (d *dockerLike) close(ctx context.Context) error {
	err := d.removeWhere(ctx, func(name string) bool { return strings.HasPrefix(name, d.prefix+"-") })
	if d.image == "" || err != nil {
		return err
	}
	images, err := d.images(ctx)
	if err != nil {
		return err
	}
	tags := tagsBeside(images, d.image)
	var errs []error
	if slices.Contains(tags, d.mark) {
		errs = append(errs, d.untag(ctx, d.mark))
		tags = slices.DeleteFunc(tags, func(t string) bool { return t == d.mark })
	}
	if d.ours && slices.Contains(tags, d.image) && !slices.ContainsFunc(tags, isMark) {
		errs = append(errs, d.untag(ctx, d.image))
	}
	d.image = ""
	return errors.Join(errs...)
}

// untag takes a tag away, and the image with its last one.
func (d *dockerLike) untag(ctx context.Context, tag string) error {
	_, err := d.client.ask(ctx, "rmi", tag)
	return err
}

func (d *dockerLike) sweep(ctx context.Context) error {
	if err := d.removeWhere(ctx, func(name string) bool { return deadName(name, d.owner) }); err != nil {
		return err
	}
	images, err := d.images(ctx)
	errs := []error{err}
	for _, tags := range images {
		for _, t := range deadTags(tags, d.owner) {
			errs = append(errs, d.untag(ctx, t))
		}
	}
	return errors.Join(errs...)
}

const podmanName = "podman"

// podmanTarget is podman: by its command, or by its Docker-compatible API.
func podmanTarget() Target {
	return Target{
		Name:    "podman",
		Summary: "Podman, by its API service or its CLI (parameter path)",
		Find:    findPodman,
		New:     newPodman,
	}
}

// podmanEngine is podman's service, which speaks Docker's language.
func podmanEngine() dockerEngine {
	return dockerEngine{
		name:  podmanName,
		start: "podman system service --time=0",
		sockets: func(e dockerEnv) []string {
			var at []string
			if h := e.getenv("CONTAINER_HOST"); h != "" {
				return []string{strings.TrimPrefix(h, "unix://")}
			}
			if d := e.getenv("XDG_RUNTIME_DIR"); d != "" {
				at = append(at, filepath.Join(d, "podman/podman.sock"))
			}
			at = append(at, "/run/podman/podman.sock")
			return append(at, globbed(filepath.Join(e.home, ".local/share/containers/podman/machine/*/podman.sock"))...)
		},
	}
}

const podmanInstall = "apt-get install podman"

func findPodman(ctx context.Context) Found {
	service := findDockerAt(ctx, podmanEngine(), osDockerEnv())
	client, err := newCLIClient("podman")
	if err != nil {
		if service.OK {
			service.Note = "no podman on PATH: path=api only"
			return service
		}
		f := notOnPath("podman", podmanInstall)
		f.Why += ", " + service.Why
		return f
	}
	version, err := client.ask(ctx, "--version")
	if err != nil || len(version) == 0 {
		return Found{Where: client.path, Why: fmt.Sprintf("podman does not say its version: %v", err), Hint: "podman --version"}
	}
	f := Found{OK: true, Where: client.path, Version: version[0]}
	if runtime.GOOS != "linux" { // the client of a virtual machine
		f.State = ClientOnly
	}
	_, _, notes := podmanFlags()
	if service.OK {
		f.Version += ", service at " + service.Where
	} else {
		notes = append(notes, "path=api needs its service: "+podmanEngine().start+" & ("+service.Why+")")
	}
	f.Note = strings.Join(notes, "; ")
	return f
}

func newPodman(p Params) (Instance, error) {
	if orDefault(p["path"], "api") == "api" {
		ep, err := osDockerEnv().find(podmanEngine())
		if err != nil {
			return nil, fmt.Errorf("podman: path=api: %w (%s &): %w", err, podmanEngine().start, errors.ErrUnsupported)
		}
		return newDockerAt(podmanEngine(), ep, p)
	}
	global, extra, _ := podmanFlags()
	client, err := newCLIClient("podman", global...)
	if err != nil {
		return nil, fmt.Errorf("podman: %w", err)
	}
	c, err := newCLIInstance("podman", client, p, func(owner runOwner, prefix string) cliEngine {
		return &dockerLike{client: client, extra: extra, kill: []string{"--time", "0"}, owner: owner, prefix: prefix,
			mark: markRepository + ":" + strings.TrimPrefix(prefix, cliPrefix)}
	})
	if err != nil {
		return nil, err
	}
	return withOperation(p, c)
}

// podmanFlags are the arguments, before the command and of run and create,
// that podman needs on a machine like this, and why.
func podmanFlags() (global, extra, notes []string) {
	if runtime.GOOS == "linux" {
		// CONTAINER_HOST makes podman a client of its service, which path=api is.
		global = append(global, "--remote=false")
	}
	if hybrid, other := crunRefuses(); hybrid && other != "" {
		global = append(global, "--runtime", other)
		notes = append(notes, "crun refuses cgroup v1 and v2 side by side: --runtime "+other+" is used")
	}
	if !mayRaiseLimits() {
		extra = append(extra, "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
		notes = append(notes, "no CAP_SYS_RESOURCE to raise limits as podman does: "+strings.Join(extra, " ")+" is used")
	}
	return global, extra, notes
}
