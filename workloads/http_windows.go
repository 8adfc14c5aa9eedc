package workloads

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// httpGuards says that no server can be started here.
const httpGuards = false

func reusePort(string, string, syscall.RawConn) error { return errors.ErrUnsupported }

func dialBlocking(ctx context.Context, addr string, patience time.Duration) (io.ReadWriteCloser, error) {
	d := net.Dialer{Timeout: patience}
	return d.DialContext(ctx, "tcp", addr)
}

func httpSystemParts() []httpPart { return nil }

type httpGuarded struct{ ended chan struct{} }

func startGuard(string, int, []string, []string) (*httpGuarded, error) {
	return nil, errors.ErrUnsupported
}

func (*httpGuarded) stop() error { return nil }

func (*httpGuarded) log() string { return "" }
