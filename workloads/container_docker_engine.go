package workloads

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// dockerEngine is one product that speaks the Docker Engine API. They differ
// in where they listen.
type dockerEngine struct {
	name    string
	summary string
	start   string   // the command that starts it
	install string   // what brings it, when there is no sign of it
	systems []string // where it exists, as GOOS; nil: everywhere
	signs   []string // folders that say that it is installed; nil: the program that starts it
	// sockets are the paths where it listens. nil: whatever the docker CLI
	// would talk to.
	sockets func(e dockerEnv) []string
	context string // of the docker CLI that the product makes
}

// dockerEngines has one row per product.
func dockerEngines() []dockerEngine {
	below := func(paths ...string) func(dockerEnv) []string {
		return func(e dockerEnv) (all []string) {
			for _, p := range paths {
				all = append(all, globbed(filepath.Join(e.home, p))...)
			}
			return all
		}
	}
	return []dockerEngine{
		{name: "docker", summary: "Docker Engine, by its API or its CLI (parameter path)"},
		{name: "docker-desktop", summary: "Docker Desktop", start: "docker desktop start", install: "https://docs.docker.com/desktop",
			signs:   []string{"/opt/docker-desktop", "/Applications/Docker.app", `C:\Program Files\Docker\Docker`},
			context: "desktop-linux", sockets: func(e dockerEnv) []string {
				if runtime.GOOS == "windows" {
					return []string{`//./pipe/dockerDesktopLinuxEngine`}
				}
				return below(".docker/desktop/docker.sock", ".docker/run/docker.sock")(e)
			}},
		{name: "orbstack", summary: "OrbStack", start: "orb start", install: "brew install orbstack", systems: []string{"darwin"},
			context: "orbstack", sockets: below(".orbstack/run/docker.sock")},
		{name: "colima", summary: "Colima and Lima", start: "colima start", install: "brew install colima", systems: []string{"darwin", "linux"},
			context: "colima", sockets: below(".colima/default/docker.sock", ".colima/docker.sock", ".colima/*/docker.sock", ".lima/*/sock/docker.sock")},
		{name: "rancher-desktop", summary: "Rancher Desktop", start: "rdctl start", install: "https://rancherdesktop.io",
			context: "rancher-desktop", sockets: below(".rd/docker.sock")},
		{name: "kiri", summary: "Kiri", start: "kiri start", install: "see the project's page", context: "kiri",
			sockets: func(e dockerEnv) []string {
				if runtime.GOOS == "windows" {
					return []string{`//./pipe/kiri`}
				}
				return below(".kiri/docker.sock", ".kiri/run/docker.sock")(e)
			}},
	}
}

// globbed are the paths that match, or the pattern itself when none does: to
// say where it was looked.
func globbed(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return []string{pattern}
	}
	return found
}

// dockerTargets are the Docker-compatible engines.
func dockerTargets() []Target {
	var all []Target
	for _, e := range dockerEngines() {
		all = append(all, Target{
			Name:    e.name,
			Summary: e.summary,
			Find:    func(ctx context.Context) Found { return findDockerAt(ctx, e, osDockerEnv()) },
			New: func(p Params) (Instance, error) {
				ep, err := osDockerEnv().find(e)
				if err != nil {
					return nil, err
				}
				return newDockerAt(e, ep, p)
			},
		})
	}
	return all
}

// find is where an engine listens: what the docker CLI would take, the
// product's context, or the first of its sockets that is there.
func (e dockerEnv) find(engine dockerEngine) (dockerEndpoint, error) {
	if engine.sockets == nil {
		return e.resolve()
	}
	if engine.context != "" {
		if ep, err := e.context(engine.context); err == nil {
			return ep, nil
		}
	}
	paths := engine.sockets(e)
	for _, p := range paths {
		if runtime.GOOS == "windows" {
			return dockerEndpoint{Host: "npipe://" + p, Source: engine.name}, nil
		}
		if st, err := os.Stat(p); err == nil && st.Mode()&fs.ModeSocket != 0 {
			return dockerEndpoint{Host: "unix://" + p, Source: engine.name}, nil
		}
	}
	return dockerEndpoint{}, fmt.Errorf("no socket at %s", strings.Join(paths, ", "))
}

// findDockerAt asks the daemon of an engine.
func findDockerAt(ctx context.Context, engine dockerEngine, env dockerEnv) Found {
	ep, err := env.find(engine)
	if err != nil {
		return engine.absent(err)
	}
	c, err := ep.connect()
	if err != nil {
		return Found{Why: err.Error(), Hint: "docker context ls"}
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	version, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		why, hint := ep.diagnose(err, env.home)
		if engine.start != "" {
			hint = engine.start
		}
		return Found{State: NotRunning, Where: ep.where(), Why: why, Hint: hint}
	}
	f := Found{OK: true, Where: ep.where(), Version: engineVersion(version, c.ClientVersion())}
	if version.Os != "linux" {
		return Found{State: OtherSystem, Where: f.Where, Version: f.Version, Hint: "docker context ls",
			Why: fmt.Sprintf("the daemon at %s runs %s containers, not linux ones", f.Where, version.Os)}
	}
	var notes []string
	if vm := engineVM(ctx, c, ep); vm != "" {
		f.State = ClientOnly
		notes = append(notes, vm)
	}
	if _, err := findDockerCLI(); err != nil {
		notes = append(notes, "no docker CLI on PATH: path=api only")
	}
	f.Note = strings.Join(notes, "; ")
	return f
}

// absent says that an engine does not listen anywhere.
func (d dockerEngine) absent(err error) Found {
	if d.sockets == nil {
		return Found{State: NotRunning, Why: err.Error(), Hint: "docker context ls"}
	}
	if d.systems != nil && !slices.Contains(d.systems, runtime.GOOS) {
		return Found{State: OtherSystem, Why: fmt.Sprintf("%s runs on %s, this is %s; %v", d.name, strings.Join(d.systems, " and "), runtime.GOOS, err)}
	}
	if missing := d.missing(); missing != "" {
		return Found{State: NotInstalled, Why: err.Error() + ", and no " + missing, Hint: d.install}
	}
	return Found{State: NotRunning, Why: err.Error(), Hint: d.start}
}

// missing says what there is no sign of; "" when the engine is installed.
func (d dockerEngine) missing() string {
	for _, f := range d.signs {
		if _, err := os.Stat(f); err == nil {
			return ""
		}
	}
	if d.signs != nil {
		return strings.Join(d.signs, ", ")
	}
	program, _, _ := strings.Cut(d.start, " ")
	if _, err := newCLIClient(program); err != nil {
		return program + " on PATH"
	}
	return ""
}

// engineVersion names the engine, its version and the API version spoken.
func engineVersion(v client.ServerVersionResult, api string) string {
	name := "Docker Engine"
	for _, c := range v.Components {
		if c.Name == "Podman Engine" {
			name = c.Name
		}
	}
	return fmt.Sprintf("%s %s, API %s", name, v.Version, api)
}

// engineVM says when the daemon runs in a virtual machine: then only the
// client's part of an operation can be seen from here.
func engineVM(ctx context.Context, c *client.Client, ep dockerEndpoint) string {
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return "" // a remark, not a need
	}
	const seen = ": stages inside it cannot be seen from here; run trace in there"
	for _, product := range []string{"Docker Desktop", "OrbStack", "Rancher Desktop", "Kiri"} {
		if strings.Contains(info.Info.OperatingSystem, product) {
			return "in the virtual machine of " + product + seen
		}
	}
	if runtime.GOOS != "linux" {
		return "in a virtual machine (" + info.Info.OperatingSystem + ")" + seen
	}
	host, err := os.Hostname()
	if err == nil && host != info.Info.Name && (!strings.HasPrefix(ep.Host, "unix://") || strings.Contains(ep.Host, "/.lima/") || strings.Contains(ep.Host, "/.colima/")) {
		return "on the machine " + info.Info.Name + seen
	}
	return ""
}
