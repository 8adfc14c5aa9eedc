package workloads

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// testEnv is a dockerEnv of its own: a home folder and variables.
func testEnv(t *testing.T, vars map[string]string) dockerEnv {
	t.Helper()
	return dockerEnv{home: t.TempDir(), getenv: func(k string) string { return vars[k] }}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeContext(t *testing.T, config, name, host string) {
	sum := sha256.Sum256([]byte(name))
	writeFile(t, filepath.Join(config, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"),
		`{"Name":"`+name+`","Metadata":{},"Endpoints":{"docker":{"Host":"`+host+`","SkipTLSVerify":false}}}`)
}

func TestResolveDockerEndpoint(t *testing.T) {
	type file struct{ config, context, host string }
	for _, c := range []struct {
		what   string
		vars   map[string]string
		file   file
		host   string
		source string
	}{
		{"nothing said", nil, file{}, "", "default"},
		{"DOCKER_HOST", map[string]string{"DOCKER_HOST": "unix:///a"}, file{`{"currentContext":"x"}`, "x", "unix:///b"}, "unix:///a", "DOCKER_HOST"},
		{"current context", nil, file{`{"currentContext":"x"}`, "x", "unix:///b"}, "unix:///b", `docker context "x"`},
		{"DOCKER_CONTEXT", map[string]string{"DOCKER_CONTEXT": "y"}, file{`{"currentContext":"x"}`, "y", "unix:///c"}, "unix:///c", `docker context "y"`},
		{"context default", map[string]string{"DOCKER_CONTEXT": "default"}, file{`{"currentContext":"x"}`, "x", "unix:///b"}, "", "default"},
		{"no current context", nil, file{`{"auths":{}}`, "", ""}, "", "default"},
	} {
		t.Run(c.what, func(t *testing.T) {
			env := testEnv(t, c.vars)
			if c.file.config != "" {
				writeFile(t, filepath.Join(env.configDir(), "config.json"), c.file.config)
			}
			if c.file.context != "" {
				writeContext(t, env.configDir(), c.file.context, c.file.host)
			}
			ep, err := env.resolve()
			if err != nil {
				t.Fatal(err)
			}
			if ep.Source != c.source || c.host != "" && ep.Host != c.host {
				t.Errorf("got %+v, want %s from %s", ep, c.host, c.source)
			}
		})
	}
}

func TestResolveDockerEndpointErrors(t *testing.T) {
	env := testEnv(t, map[string]string{"DOCKER_CONTEXT": "nowhere"})
	if _, err := env.resolve(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("missing context: %v", err)
	}
	env = testEnv(t, nil)
	writeFile(t, filepath.Join(env.configDir(), "config.json"), `{"currentContext":`)
	if _, err := env.resolve(); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("broken config.json: %v", err)
	}
	if _, err := (dockerEndpoint{Host: "ssh://somewhere"}).connect(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("ssh: %v", err)
	}
}

func TestFindDockerAbsent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("unix sockets")
	}
	ctx := context.Background()
	f := findDockerAt(ctx, dockerEngines()[0], testEnv(t, map[string]string{"DOCKER_HOST": "unix:///nonexistent"}))
	if f.OK || f.Where != "/nonexistent" || f.Why != "no socket at /nonexistent (DOCKER_HOST)" || f.Hint != "unset DOCKER_HOST" {
		t.Errorf("no socket: %+v", f)
	}

	// A socket file that its daemon left behind.
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	f = findDockerAt(ctx, dockerEngines()[0], testEnv(t, map[string]string{"DOCKER_HOST": "unix://" + path}))
	if f.OK || f.Why != "nobody listens on "+path+" (DOCKER_HOST)" {
		t.Errorf("stale socket: %+v", f)
	}
}

func FuzzParseDockerContext(f *testing.F) {
	f.Add([]byte(`{"Endpoints":{"docker":{"Host":"unix:///a"}}}`))
	f.Add([]byte(`{"currentContext":"x"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if host, err := parseDockerContext(b); err == nil && host == "" {
			t.Error("no endpoint and no error")
		}
		if name, err := parseDockerConfig(b); err != nil && name != "" {
			t.Errorf("%q beside the error %v", name, err)
		}
	})
}
