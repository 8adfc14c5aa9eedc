package workloads

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestReadAnswer(t *testing.T) {
	for _, c := range []struct {
		text   string
		body   string
		status int
		closes bool
		bad    bool
	}{
		{text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", body: "hello", status: 200},
		{text: "HTTP/1.1 204\r\ncontent-length:0\r\nconnection: Close\r\n\r\n", status: 204, closes: true},
		{text: "HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n", body: "abcde", status: 500},
		{text: "HTTP/1.1 200 OK\r\n\r\nno length", bad: true},
		{text: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", bad: true},
		{text: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort", bad: true},
		{text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", bad: true},
		{text: "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", bad: true},
		{text: "SSH-2.0-OpenSSH\r\n", bad: true},
		{text: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 8192) + "\r\n\r\n", bad: true},
		{text: "", bad: true},
	} {
		var body bytes.Buffer
		r := bufio.NewReader(strings.NewReader(c.text + "HTTP/1.1 next"))
		a, err := readAnswer(r, &body)
		if c.bad {
			if err == nil {
				t.Errorf("%q is an answer: %+v", c.text, a)
			}
			continue
		}
		rest, _ := r.ReadString(0) // to the end
		if err != nil || a.status != c.status || a.closes != c.closes || body.String() != c.body || a.size != int64(len(c.body)) || rest != "HTTP/1.1 next" {
			t.Errorf("%q: %+v, body %q, then %q: %v", c.text, a, body.String(), rest, err)
		}
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var body bytes.Buffer
		a, err := readAnswer(bufio.NewReader(bytes.NewReader(b)), &body)
		if err == nil && a.size != int64(body.Len()) {
			t.Errorf("size %d of a body of %d bytes", a.size, body.Len())
		}
	})
}

func TestHTTPURL(t *testing.T) {
	for text, want := range map[string]httpPlace{
		"http://127.0.0.1:8080":      {Addr: "127.0.0.1:8080", Path: "/"},
		"http://localhost/a?b=c":     {Addr: "127.0.0.1:80", Path: "/a?b=c"},
		"http://[::1]:81/x":          {Addr: "[::1]:81", Path: "/x"},
		"https://127.0.0.1/":         {},
		"http://192.0.2.1/":          {},
		"http://example.org/":        {},
		"http://127.0.0.1.evil.org/": {},
		"127.0.0.1:80":               {},
	} {
		got, err := parseHTTPURL(text)
		if got != want || (err == nil) != (want.Addr != "") {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestHTTPOptions(t *testing.T) {
	w := httpServe()
	for _, c := range []struct{ name, value, want string }{
		{"requests", "0", "want 1 to"}, {"requests", "x", "want 1 to"}, {"connections", "100000", "want 0 to"},
		{"window", "1h", "want 0s to"}, {"pipeline", "0", "want 1 to"}, {"mode", "many", "none of"},
	} {
		p, err := w.Resolve(map[string]string{c.name: c.value})
		if err == nil {
			_, err = newHTTPOptions(p)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
	p, err := w.Resolve(map[string]string{"generator": "wrk", "pipeline": "16"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newHTTPOptions(p); err == nil {
		t.Error("wrk is thought to pipeline")
	}
	if _, err := newHTTPURL(map[string]string{}); err == nil {
		t.Error("target url does without a url")
	}
}

func TestParseWrk(t *testing.T) {
	rep, err := parseWrk(`Running 2s test @ http://127.0.0.1:1/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.81ms    2.03ms  21.51ms   88.62%
    Req/Sec    48.20k     4.11k   55.70k    65.00%
  Latency Distribution
     50%    1.20ms
     75%    2.05ms
     90%  900.00us
     99%    9.80ms
  96012 requests in 2.01s, 11.90MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 12
Requests/sec:  47800.12
`)
	want := httpReport{Requests: 96000, Errors: 22, Took: 2010 * time.Millisecond, P50: 1200 * time.Microsecond, P99: 9800 * time.Microsecond}
	if err != nil || *rep != want {
		t.Errorf("%+v, %v, want %+v", rep, err, want)
	}
	if _, err := parseWrk("unable to connect"); err == nil {
		t.Error("no numbers, and no error")
	}
}

// TestHTTPStartError: a server that cannot start says so with its own words.
func TestHTTPStartError(t *testing.T) {
	if !httpGuards {
		t.Skip("no servers are started here")
	}
	t.Setenv("TMPDIR", t.TempDir())
	s := httpServer{name: "broken", args: func(httpCommandLine) []string { return []string{httpCommand, "nothing"} }}
	p, err := httpServe().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	inst, err := newHTTPInstance(s, p)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(inst.Setup(t.Context()), inst.Cleanup(t.Context()))
	if err == nil || !strings.Contains(err.Error(), "no such part") {
		t.Errorf("the error is %v", err)
	}
}
