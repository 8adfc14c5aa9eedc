//go:build linux

package ebpf

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

// talk has one end of a connection send five bytes and get three back.
func talk(t *testing.T, network, address string) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			if _, err = io.ReadFull(c, make([]byte, 5)); err == nil {
				_, err = c.Write([]byte("abc"))
			}
		}
		done <- err
	}()
	c, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("12345")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// messagesMissing is what a kernel without the tracepoints must say.
func messagesMissing(t *testing.T) {
	t.Helper()
	for _, f := range Features(t.Context()) {
		if f.Name == FeatureMessages && f.Err != nil {
			return
		}
	}
	t.Errorf("no feature %q is missing", FeatureMessages)
}

// TestMessages wants the two ends of a connection to give what goes through it
// the same number, and the two directions numbers that differ in the last bit.
func TestMessages(t *testing.T) {
	if err := tryTracing(ebpf.AttachTraceRawTp, "sock_recv_length"); err != nil {
		messagesMissing(t)
		return
	}
	for _, c := range []struct{ network, address, name string }{
		{"unix", filepath.Join(t.TempDir(), "socket"), "unix"},
		{"tcp4", "127.0.0.1:0", "tcp"},
		{"tcp6", "[::1]:0", "tcp"},
		{"tcp", ":0", "tcp"}, // an IPv6 socket that takes IPv4 peers
	} {
		t.Run(c.network, func(t *testing.T) {
			if c.network == "tcp6" {
				l, err := net.Listen(c.network, c.address)
				tracetest.Require(t, "ipv6", err)
				_ = l.Close() // it was only tried
			}
			s := open(t, everything())
			if err := s.Follow(os.Getpid()); err != nil {
				t.Fatal(err)
			}
			tr := recordWork(t, s, func() { talk(t, c.network, c.address) })
			sent, read := map[int64]uint64{}, map[int64]uint64{}
			for _, e := range events(tr, func(e *tracer.Event) bool { return e.Class == tracer.ClassSocket }) {
				if tr.Tasks[e.Task].PID != int32(os.Getpid()) || tr.String(e.Name) != c.name {
					continue
				}
				if e.Kind == tracer.KindSend {
					sent[e.Value] = e.Flow
				} else {
					read[e.Value] = e.Flow
				}
			}
			if sent[5] == 0 || sent[5] != read[5] || sent[3] != read[3] || sent[3] != sent[5]^1 {
				t.Errorf("by length, sent %x, read %x", sent, read)
			}
		})
	}
}
