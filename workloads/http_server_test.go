//go:build unix

package workloads

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// httpMetric is the value of a metric.
func httpMetric(t *testing.T, metrics []Metric, name string) float64 {
	t.Helper()
	for _, m := range metrics {
		if m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("no metric %q in %v", name, metrics)
	return 0
}

// serveOnce carries one block of one operation out.
func serveOnce(t *testing.T, inst Instance) Outcome {
	t.Helper()
	ctx := t.Context()
	defer func() {
		if err := inst.Cleanup(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	if err := inst.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	if err := inst.(BlockPreparer).PrepareBlock(ctx); err != nil {
		t.Fatal(err)
	}
	if err := inst.Prepare(ctx, 1); err != nil {
		t.Fatal(err)
	}
	out, err := inst.Do(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Conclude(ctx, 1, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHTTPOwnServers serves with the servers that are part of this program, in
// every way of making load, and finds nothing left.
func TestHTTPOwnServers(t *testing.T) {
	w := httpServe()
	for _, target := range []string{"go", "epoll"} {
		for _, given := range []map[string]string{
			{}, {"mode": "multi", "pipeline": "16"}, {"load": "during", "urls": "100"}, {"rate": "500", "connections": "10"},
		} {
			t.Run(fmt.Sprint(target, given), func(t *testing.T) {
				tmp := t.TempDir()
				t.Setenv("TMPDIR", tmp)
				given["window"], given["requests"] = "100ms", "5"
				p, err := w.Resolve(given)
				if err != nil {
					t.Fatal(err)
				}
				tg, _ := w.LookupTarget(target)
				if f := tg.Find(t.Context()); !f.OK {
					t.Skip(f.Why)
				}
				inst, err := tg.New(p)
				if err != nil {
					t.Fatal(err)
				}
				out := serveOnce(t, inst)
				if out.Units != 5 || len(out.Metrics) == 0 {
					t.Errorf("%+v", out)
				} else if n := httpMetric(t, out.Metrics, "requests"); n <= 0 || given["rate"] == "500" && n > 1000 {
					t.Errorf("%v requests per second", n)
				} else if e := httpMetric(t, out.Metrics, "errors"); e != 0 {
					t.Errorf("%v errors", e)
				}
				if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
					t.Errorf("left behind: %q, %v", left, err)
				}
			})
		}
	}
}

// TestHTTPErrors: what a server answers wrongly is counted beside what it
// answers rightly.
func TestHTTPErrors(t *testing.T) {
	var turns atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := turns.Add(1); n > 10 && n%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("body"))
	}))
	defer s.Close()
	p, err := httpServe().Resolve(map[string]string{"url": s.URL, "window": "200ms", "connections": "2"})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := newHTTPURL(p)
	if err != nil {
		t.Fatal(err)
	}
	h := inst.(*httpInstance)
	if err := h.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.PrepareBlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.report == nil || h.report.Errors == 0 || h.report.Requests == 0 || h.report.P99 < h.report.P50 || h.report.P50 <= 0 {
		t.Errorf("%+v", h.report)
	}
	if err := h.Cleanup(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHTTPPreflight: a server that answers something else is not measured.
func TestHTTPPreflight(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "status 404"},
		"body":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Goodbye")) }, `the body is "Goodbye"`},
		"close": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = w.Write([]byte(httpBody))
		}, "closes the connection"},
	} {
		s := httptest.NewServer(c.handler)
		_, err := preflight(httpPlace{Addr: s.Listener.Addr().String(), Path: "/"}, 2, httpBody)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
	}
}

// TestHTTPGuardOrphan: when its parent is gone, the guard takes the server down
// and removes the folder.
func TestHTTPGuardOrphan(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := httpServers()[0]
	guard, place, err := startServer(t.Context(), &s, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.hold.Close(); err != nil { // as the kernel does it for a process that is killed
		t.Fatal(err)
	}
	select {
	case <-guard.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the guard goes on")
	}
	if _, err := os.Stat(guard.dir); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if c, err := net.Dial("tcp", place.Addr); err == nil {
		c.Close()
		t.Error("the server still listens")
	}
}
