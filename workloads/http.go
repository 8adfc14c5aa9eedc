package workloads

import (
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"time"
)

// httpServe is the row http-serve. Before every block of operations, while
// nothing is recorded, a closed or open loop of connections finds out what the
// server can do: requests per second, errors and latency are metrics of the
// block's first operation. The operation itself is some requests one after the
// other on one connection, so that its stages say where the time of a request
// goes. All traffic stays on the loopback interface.
func httpServe() Workload {
	return Workload{
		Name:    "http-serve",
		Summary: "Answer HTTP requests: latency, requests per second, and where a request's time goes on the server",
		Stages:  []string{"http", "linux"},
		Unit:    "requests",
		Params: []Param{
			{Name: "mode", Default: "single", Values: []string{"single", "multi"}, Help: "one serving process, or one per CPU"},
			{Name: "requests", Default: "20", Help: "requests of one operation, one after the other"},
			{Name: "connections", Default: "0", Help: "keep-alive connections of the load; 0: 32 per CPU, 256 at most"},
			{Name: "window", Default: "500ms", Help: "how long the load is measured; 0s: no load"},
			{Name: "load", Default: "before", Values: []string{"before", "during"}, Help: "the load runs before each block of operations, unrecorded, or from before each operation through it"},
			{Name: "rate", Default: "0", Help: "requests per second that the load intends to send (open loop); 0: as many as are answered (closed loop)"},
			{Name: "pipeline", Default: "1", Help: "requests that a connection of the load sends at once"},
			{Name: "urls", Default: "1", Help: "different addresses that are asked for"},
			{Name: "generator", Default: "builtin", Values: []string{"builtin", "wrk"}, Help: "what makes the load"},
			{Name: "url", Default: "", Help: "of a server that runs already, for target url; it must be on the loopback interface"},
		},
		Targets: httpTargets(),
	}
}

// httpOptions are the parameters of http-serve.
type httpOptions struct {
	workers  int // serving processes
	requests int
	during   bool
	wrk      bool
	load     httpLoad
	url      string
}

const (
	mostHTTPRequests    = 100_000
	mostHTTPConnections = 256
	mostHTTPWindow      = time.Minute
)

func newHTTPOptions(p Params) (o httpOptions, err error) {
	ints := []struct {
		name      string
		to        *int
		low, high int
	}{
		{"requests", &o.requests, 1, mostHTTPRequests},
		{"connections", &o.load.Connections, 0, mostHTTPConnections},
		{"rate", &o.load.Rate, 0, 10_000_000},
		{"pipeline", &o.load.Pipeline, 1, 64},
		{"urls", &o.load.URLs, 1, 65536},
	}
	for _, i := range ints {
		n, err := strconv.Atoi(p[i.name])
		if err != nil || n < i.low || n > i.high {
			return o, fmt.Errorf("%s %q: want %d to %d", i.name, p[i.name], i.low, i.high)
		}
		*i.to = n
	}
	if o.load.Connections == 0 {
		o.load.Connections = min(mostHTTPConnections, 32*runtime.NumCPU())
	}
	o.load.Window, err = time.ParseDuration(p["window"])
	if err != nil || o.load.Window < 0 || o.load.Window > mostHTTPWindow {
		return o, fmt.Errorf("window %q: want 0s to %v", p["window"], mostHTTPWindow)
	}
	o.workers = 1
	if p["mode"] == "multi" {
		o.workers = runtime.NumCPU()
	}
	o.during, o.wrk, o.url = p["load"] == "during", p["generator"] == "wrk", p["url"]
	o.load.Hold = o.during
	switch {
	case o.during && o.load.Window == 0:
		return o, fmt.Errorf("load=during needs a window")
	case o.wrk && (o.during || o.load.Rate > 0 || o.load.Pipeline > 1 || o.load.URLs > 1):
		return o, fmt.Errorf("generator=wrk knows no load=during, rate, pipeline and urls: use generator=builtin")
	}
	return o, nil
}

// httpPlace is where a server listens and what it is asked for.
type httpPlace struct {
	Addr string // host:port
	Path string
}

// parseHTTPURL takes the address of a running server apart. Load must not leave
// this machine: only loopback addresses will do.
func parseHTTPURL(text string) (httpPlace, error) {
	u, err := url.Parse(text)
	if err != nil {
		return httpPlace{}, fmt.Errorf("url %q: %w", text, err)
	}
	if u.Scheme != "http" || u.Host == "" {
		return httpPlace{}, fmt.Errorf("url %q: want http://HOST:PORT/PATH", text)
	}
	host, port := u.Hostname(), u.Port()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return httpPlace{}, fmt.Errorf("url %q: %s is not a loopback address, and load is made on this machine only", text, host)
	}
	if port == "" {
		port = "80"
	}
	return httpPlace{Addr: net.JoinHostPort(host, port), Path: u.RequestURI()}, nil
}

// freePort is a TCP port that nobody listens on right now.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
