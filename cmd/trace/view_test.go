package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestViewHandler serves one page, to those who know this machine by its name.
func TestViewHandler(t *testing.T) {
	h := viewHandler([]byte("<p>page"), 8080)
	for _, c := range []struct {
		method, target, host string
		want                 int
	}{
		{"GET", "/", "127.0.0.1:8080", 200}, {"GET", "/", "localhost:8080", 200}, {"GET", "/", "[::1]:8080", 200}, {"HEAD", "/", "localhost", 200}, {"GET", "/", "[::1]", 200},
		{"GET", "/", "evil.example:8080", 403}, {"GET", "/", "localhost.evil.example", 403}, {"GET", "/", "10.0.0.1:8080", 403}, {"GET", "/", "", 403},
		{"POST", "/", "localhost", 405}, {"GET", "/result.json", "localhost", 404}, {"GET", "/../etc/passwd", "localhost", 404},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.URL.Path, r.Host = c.target, c.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %s of %q: %d, want %d", c.method, c.target, c.host, w.Code, c.want)
		}
		if shows := strings.Contains(w.Body.String(), "<p>page"); shows != (c.want == 200 && c.method == "GET") {
			t.Errorf("%s %s of %q: %q", c.method, c.target, c.host, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers are %v", w.Header())
		}
	}
}

// TestViewListens serves a page until it is interrupted.
func TestViewListens(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("../../reports/testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "result.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary, "view", dir, "--listen")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(strings.TrimSpace(address))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(page), "Where the time went") {
		t.Errorf("the page is %q, %v", page, err)
	}
	answer.Body.Close()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Skip(err)
	}
	if err := c.Wait(); fmt.Sprint(err) != "exit status 130" {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "report.html")); err == nil {
		t.Error("serving wrote into the folder")
	}
}
