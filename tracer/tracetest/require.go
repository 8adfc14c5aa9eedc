package tracetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// RequireEnv names the environment variable that lists, separated by commas,
// the features (bpf, root, docker, runc ...) that this machine must have:
// a test that would be skipped for want of one fails instead.
const RequireEnv = "TRACE_TEST_REQUIRE"

// Require skips the test with the reason when err says that a feature is not
// there, or fails it when RequireEnv lists the feature. A nil err goes on.
func Require(t testing.TB, feature string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for name := range strings.SplitSeq(os.Getenv(RequireEnv), ",") {
		if strings.TrimSpace(name) == feature {
			t.Fatalf("%s is required by %s but: %v", feature, RequireEnv, err)
		}
	}
	t.Skipf("needs %s: %v", feature, err)
}

// RequireRoot asks for user id 0.
func RequireRoot(t testing.TB) {
	t.Helper()
	Require(t, "root", checkRoot())
}

func checkRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("user id is %d, not 0", uid)
	}
	return nil
}

// RequireBPF asks that this process may load BPF programs: it loads one of
// two instructions.
func RequireBPF(t testing.TB) {
	t.Helper()
	Require(t, "bpf", checkBPF())
}

// RequireRunc asks for runc in PATH.
func RequireRunc(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("runc")
	Require(t, "runc", err)
}

// RequireDocker asks for a Docker daemon that answers on its socket:
// DOCKER_HOST when that is a Unix socket, or the default one.
func RequireDocker(t testing.TB) {
	t.Helper()
	Require(t, "docker", checkDocker(t.Context()))
}

func checkDocker(ctx context.Context) error {
	socket := "/var/run/docker.sock"
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		var ok bool
		if socket, ok = strings.CutPrefix(host, "unix://"); !ok {
			return fmt.Errorf("DOCKER_HOST is %s, not a Unix socket of this machine", host)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("docker daemon: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 100))
	if err != nil {
		return fmt.Errorf("docker daemon: %w", err)
	}
	if response.StatusCode != http.StatusOK || string(body) != "OK" {
		return errors.New("docker daemon: /_ping answers " + response.Status)
	}
	return nil
}
