package workloads

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
)

// goServerMain serves with net/http as people use it.
func goServerMain([]string) error {
	config := net.ListenConfig{}
	if os.Getenv("TRACE_HTTP_WORKERS") != "1" {
		config.Control = reusePort
	}
	l, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:"+os.Getenv("TRACE_HTTP_PORT"))
	if err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, httpBody) // who asked may be gone
	}))
}
