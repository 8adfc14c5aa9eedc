package workloads

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeDaemon speaks as much of the Engine API as one container start needs.
type fakeDaemon struct {
	mu      sync.Mutex
	calls   []string // in the order in which they were answered
	started chan struct{}

	createStatus, startStatus int
	waitBody                  string // the end of the wait's response
}

func (f *fakeDaemon) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

func (f *fakeDaemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.41")
	w.Header().Set("Content-Type", "application/json")
	switch p := r.URL.Path; {
	case strings.HasSuffix(p, "/_ping"):
		fmt.Fprint(w, "OK")
	case strings.HasSuffix(p, "/containers/create"):
		f.note("create")
		w.WriteHeader(f.createStatus)
		fmt.Fprint(w, `{"Id":"c0ffee","message":"the create went wrong"}`)
	case strings.HasSuffix(p, "/wait"):
		f.wait(w, r)
	case strings.HasSuffix(p, "/start"):
		f.note("start")
		w.WriteHeader(f.startStatus)
		if f.startStatus != http.StatusNoContent {
			fmt.Fprint(w, `{"message":"the start went wrong"}`)
			return
		}
		close(f.started)
	default:
		http.NotFound(w, r)
	}
}

// wait sends its headers late, and its body when the container was started.
func (f *fakeDaemon) wait(w http.ResponseWriter, r *http.Request) {
	for range 1000 { // whoever does not wait for the headers gets ahead here
		runtime.Gosched()
	}
	f.note("wait " + r.URL.Query().Get("condition"))
	w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err)
	}
	select {
	case <-f.started:
		fmt.Fprint(w, f.waitBody)
	case <-r.Context().Done():
	}
}

// serveFake gives an instance whose daemon is f.
func serveFake(t *testing.T, f *fakeDaemon) *dockerInstance {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("unix sockets")
	}
	f.started = make(chan struct{})
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: f}
	go srv.Serve(l)
	t.Setenv("DOCKER_HOST", "unix://"+path)
	ep, err := osDockerEnv().resolve()
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDockerInstance(dockerEngines()[0], ep, Params{"path": "api", "network": "none"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.client.Close(); srv.Close() })
	d.image.ref, d.name = "image", "name"
	return d
}

func TestDockerAPIWaitsBeforeItStarts(t *testing.T) {
	f := &fakeDaemon{createStatus: http.StatusCreated, startStatus: http.StatusNoContent, waitBody: `{"StatusCode":7}`}
	d := serveFake(t, f)
	out, err := d.Do(context.Background(), 1)
	if err != nil || !reflect.DeepEqual(out, Outcome{Units: 1, ExitCode: 7}) {
		t.Errorf("%+v, %v", out, err)
	}
	if want := []string{"create", "wait removed", "start"}; !slices.Equal(f.calls, want) {
		t.Errorf("the daemon was asked %v, want %v", f.calls, want)
	}
}

func TestDockerAPIErrors(t *testing.T) {
	for _, c := range []struct {
		what string
		f    *fakeDaemon
		want string
	}{
		{"create", &fakeDaemon{createStatus: 409}, "create container: Error response from daemon: the create went wrong"},
		{"start", &fakeDaemon{createStatus: 201, startStatus: 500}, "start container: Error response from daemon: the start went wrong"},
		{"wait", &fakeDaemon{createStatus: 201, startStatus: 204, waitBody: `{"StatusCode":125,"Error":{"Message":"the removal went wrong"}}`},
			"wait for container: the removal went wrong"},
		{"daemon dies", &fakeDaemon{createStatus: 201, startStatus: 204}, "wait for container: EOF"},
		{"proxy", &fakeDaemon{createStatus: 201, startStatus: 204, waitBody: "bad gateway"}, "wait for container: bad gateway"},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := serveFake(t, c.f)
			out, err := d.Do(context.Background(), 1)
			if err == nil || err.Error() != c.want || out.Units != 0 {
				t.Errorf("%+v, %v; want %s", out, err, c.want)
			}
			if !d.doubted {
				t.Error("a failed operation is not looked after")
			}
		})
	}
}
