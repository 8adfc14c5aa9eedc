package workloads

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/moby/moby/client"
)

// dockerEndpoint is where a Docker-compatible daemon is said to listen. It is
// resolved as the docker CLI resolves it, so that the API path and the CLI
// path of one run talk to the same daemon.
type dockerEndpoint struct {
	Host   string // a URL: unix:///var/run/docker.sock, tcp://..., npipe://...
	Source string // who said so: DOCKER_HOST, docker context "x", default
	TLS    string // folder with ca.pem, cert.pem, key.pem of a context; "" for none
}

// dockerEnv is what resolving looks at.
type dockerEnv struct {
	getenv func(string) string
	home   string
}

func osDockerEnv() dockerEnv {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // no contexts then; the default socket still counts
	}
	return dockerEnv{getenv: os.Getenv, home: home}
}

// resolve follows the CLI's order: DOCKER_HOST, DOCKER_CONTEXT, the current
// context of config.json, the default (docker/cli, cli/command/cli.go,
// resolveContextName). A source that is set is not fallen back from.
func (e dockerEnv) resolve() (dockerEndpoint, error) {
	if h := e.getenv(client.EnvOverrideHost); h != "" {
		return dockerEndpoint{Host: h, Source: "DOCKER_HOST"}, nil
	}
	name := e.getenv("DOCKER_CONTEXT")
	if name == "" {
		b, err := os.ReadFile(filepath.Join(e.configDir(), "config.json"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return dockerEndpoint{}, fmt.Errorf("docker configuration: %w", err)
		default:
			if name, err = parseDockerConfig(b); err != nil {
				return dockerEndpoint{}, fmt.Errorf("%s: %w", filepath.Join(e.configDir(), "config.json"), err)
			}
		}
	}
	if name == "" || name == "default" {
		return dockerEndpoint{Host: client.DefaultDockerHost, Source: "default"}, nil
	}
	return e.context(name)
}

func (e dockerEnv) configDir() string {
	if d := e.getenv("DOCKER_CONFIG"); d != "" {
		return d
	}
	return filepath.Join(e.home, ".docker")
}

// context reads a context of the CLI's store: its folder is named after the
// SHA-256 of the context's name.
func (e dockerEnv) context(name string) (dockerEndpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	meta := filepath.Join(e.configDir(), "contexts", "meta", id, "meta.json")
	b, err := os.ReadFile(meta)
	if err != nil {
		return dockerEndpoint{}, fmt.Errorf("docker context %q: %w", name, err)
	}
	host, err := parseDockerContext(b)
	if err != nil {
		return dockerEndpoint{}, fmt.Errorf("docker context %q: %s: %w", name, meta, err)
	}
	ep := dockerEndpoint{Host: host, Source: fmt.Sprintf("docker context %q", name)}
	tls := filepath.Join(e.configDir(), "contexts", "tls", id, "docker")
	if st, err := os.Stat(tls); err == nil && st.IsDir() {
		ep.TLS = tls
	}
	return ep, nil
}

// parseDockerConfig takes the current context's name from a config.json.
func parseDockerConfig(b []byte) (string, error) {
	var c struct {
		CurrentContext string `json:"currentContext"`
	}
	err := json.Unmarshal(b, &c)
	return c.CurrentContext, err
}

// parseDockerContext takes the daemon's URL from a context's meta.json.
func parseDockerContext(b []byte) (string, error) {
	var m struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return "", err
	}
	host := m.Endpoints["docker"].Host
	if host == "" {
		return "", errors.New("no docker endpoint")
	}
	return host, nil
}

// connect makes a client. Nothing is dialled before the first request, which
// also negotiates the API version.
func (ep dockerEndpoint) connect() (*client.Client, error) {
	if strings.HasPrefix(ep.Host, "ssh://") {
		return nil, fmt.Errorf("docker at %s: an ssh endpoint is reached by the docker CLI only: %w", ep.Host, errors.ErrUnsupported)
	}
	opts := []client.Opt{client.WithAPIVersionFromEnv(), client.WithUserAgent("stagetrace")}
	switch {
	case ep.TLS != "":
		pem := func(n string) string { return filepath.Join(ep.TLS, n+".pem") }
		opts = append(opts, client.WithTLSClientConfig(pem("ca"), pem("cert"), pem("key")))
	case ep.Source == "DOCKER_HOST":
		opts = append(opts, client.WithTLSClientConfigFromEnv())
	}
	c, err := client.New(append(opts, client.WithHost(ep.Host))...)
	if err != nil {
		return nil, fmt.Errorf("docker at %s: %w", ep.Host, err)
	}
	return c, nil
}

// diagnose says why a daemon does not answer, from facts, and the one command
// that would help.
func (ep dockerEndpoint) diagnose(err error, home string) (why, hint string) {
	why = fmt.Sprintf("%s (%s): %v", ep.Host, ep.Source, err)
	path, isUnix := strings.CutPrefix(ep.Host, "unix://")
	if !isUnix {
		return why, "docker context ls"
	}
	_, serr := os.Stat(path)
	conn, derr := net.Dial("unix", path)
	if derr == nil {
		conn.Close()
	}
	switch {
	case errors.Is(serr, fs.ErrNotExist):
		why = fmt.Sprintf("no socket at %s (%s)", path, ep.Source)
		if other := otherDockerSocket(home); other != "" && other != path {
			return why, "export DOCKER_HOST=unix://" + other
		}
		return why, startDockerHint(ep.Source)
	case errors.Is(serr, fs.ErrPermission) || errors.Is(derr, fs.ErrPermission):
		return fmt.Sprintf("permission denied on %s (%s)", path, ep.Source), "sudo usermod -aG docker $USER"
	case derr != nil:
		return fmt.Sprintf("nobody listens on %s (%s)", path, ep.Source), startDockerHint(ep.Source)
	}
	return why, "docker version"
}

// startDockerHint is the command that brings a daemon up.
func startDockerHint(source string) string {
	_, err := exec.LookPath("dockerd")
	switch {
	case source == "DOCKER_HOST":
		return "unset DOCKER_HOST"
	case source != "default":
		return "docker context use default"
	case runtime.GOOS != "linux":
		return "docker desktop start"
	case err != nil:
		return "apt-get install docker.io"
	}
	return "systemctl start docker"
}

// otherDockerSocket is a daemon's socket at one of the places where products
// put it and the CLI's default does not look; "" when there is none.
func otherDockerSocket(home string) string {
	at := []string{
		filepath.Join(home, ".docker/run/docker.sock"),
		filepath.Join(home, ".docker/desktop/docker.sock"),
		filepath.Join(home, ".orbstack/run/docker.sock"),
		filepath.Join(home, ".colima/default/docker.sock"),
		filepath.Join(home, ".rd/docker.sock"),
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		at = append(at, filepath.Join(d, "docker.sock"))
	}
	for _, p := range at {
		if st, err := os.Stat(p); err == nil && st.Mode()&fs.ModeSocket != 0 {
			return p
		}
	}
	return ""
}

// where is the endpoint as people write it: a path for a socket.
func (ep dockerEndpoint) where() string {
	if u, err := url.Parse(ep.Host); err == nil && (u.Scheme == "unix" || u.Scheme == "npipe") {
		return u.Path
	}
	return ep.Host
}
