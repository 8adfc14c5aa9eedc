package workloads

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// serveEngine answers as a daemon would that is asked what it is.
func serveEngine(t *testing.T, socket, system string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Content-Type", "application/json")
		switch p := r.URL.Path; {
		case strings.HasSuffix(p, "/_ping"):
			fmt.Fprint(w, "OK")
		case strings.HasSuffix(p, "/version"):
			fmt.Fprint(w, `{"Version":"29.8.2","Os":"linux","ApiVersion":"1.44"}`)
		case strings.HasSuffix(p, "/info"):
			fmt.Fprintf(w, `{"OperatingSystem":%q,"Name":"guest"}`, system)
		default:
			http.NotFound(w, r)
		}
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
}

// Every product is found at its socket, and a daemon that says that it runs in
// a virtual machine can be measured from its client's side only.
func TestProductsAreFoundByTheirSockets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("unix sockets")
	}
	for _, c := range []struct{ engine, socket, system string }{
		{"docker-desktop", ".docker/desktop/docker.sock", "Docker Desktop"},
		{"docker-desktop", ".docker/run/docker.sock", "Docker Desktop"},
		{"orbstack", ".orbstack/run/docker.sock", "OrbStack"},
		{"colima", ".colima/default/docker.sock", "Ubuntu 24.04"},
		{"colima", ".colima/work/docker.sock", "Ubuntu 24.04"},
		{"colima", ".lima/docker/sock/docker.sock", "Ubuntu 24.04"},
		{"rancher-desktop", ".rd/docker.sock", "Rancher Desktop WSL Distribution"},
		{"kiri", ".kiri/docker.sock", "Kiri"},
	} {
		t.Run(c.engine+" "+c.socket, func(t *testing.T) {
			home, err := os.MkdirTemp("", "h") // a socket's path has at most 108 bytes
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(home)
			env := dockerEnv{home: home, getenv: func(string) string { return "" }}
			engine := engineNamed(t, c.engine)
			if f := findDockerAt(t.Context(), engine, env); f.OK || f.Why == "" || f.State == Here {
				t.Errorf("without a socket: %+v", f)
			}
			socket := filepath.Join(home, c.socket)
			serveEngine(t, socket, c.system)
			f := findDockerAt(t.Context(), engine, env)
			if !f.OK || f.State != ClientOnly || f.Where != socket || !strings.Contains(f.Version, "29.8.2") || !strings.Contains(f.Note, "stages inside it cannot be seen") {
				t.Errorf("%+v", f)
			}
		})
	}
}

func engineNamed(t *testing.T, name string) dockerEngine {
	t.Helper()
	for _, e := range dockerEngines() {
		if e.name == name {
			return e
		}
	}
	t.Fatalf("no engine %s", name)
	return dockerEngine{}
}

// A context that a product made is followed, wherever it leads to.
func TestProductsAreFoundByTheirContexts(t *testing.T) {
	env := testEnv(t, nil)
	writeContext(t, env.configDir(), "orbstack", "unix:///somewhere/docker.sock")
	ep, err := env.find(engineNamed(t, "orbstack"))
	if err != nil || ep.Host != "unix:///somewhere/docker.sock" || !strings.Contains(ep.Source, "orbstack") {
		t.Errorf("%+v, %v", ep, err)
	}
}

func TestMissingEnginesSayWhereTheyWereLookedFor(t *testing.T) {
	env := testEnv(t, nil)
	t.Setenv("PATH", t.TempDir())
	for _, e := range dockerEngines()[1:] {
		f := findDockerAt(t.Context(), e, env)
		if f.OK || f.State == Here || runtime.GOOS != "windows" && !strings.Contains(f.Why, env.home) {
			t.Errorf("%s: %+v", e.name, f)
		}
		if f.State != OtherSystem && f.Hint == "" {
			t.Errorf("%s: nothing to try: %+v", e.name, f)
		}
	}
}
