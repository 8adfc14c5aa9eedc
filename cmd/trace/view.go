package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stagetrace/reports"
)

// viewAnywhere is --listen without an address: a port that is free.
const viewAnywhere = "127.0.0.1:0"

func viewCommand(term *terminal) *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "view [flags] DIR",
		Short: "Open the page of a result in the browser, or serve it",
		Long: `Open the page of a result in the browser. With --listen it is served on the
loopback interface until Ctrl-C, for a browser on another machine:

  ssh -L 8080:127.0.0.1:8080 HOST trace view DIR --listen=127.0.0.1:8080`,
		Example: `  trace view DIR`,
		Args:    exactly(1, "result folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("listen") {
				return serveView(cmd.Context(), args[0], listen, term)
			}
			return openView(cmd.Context(), args[0], term)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "", "serve the page on this address of the loopback interface; without a value: on a free port")
	flags.Lookup("listen").NoOptDefVal = viewAnywhere
	return cmd
}

// viewPage makes the page of a result.
func viewPage(dir string, term *terminal) ([]byte, error) {
	f, err := reports.Lookup("html")
	if err != nil {
		return nil, err
	}
	in, err := (&reportOptions{}).input(dir, f, term)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, in); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return b.Bytes(), nil
}

// browsers are the commands that open a file as the user wants it opened, by
// system; others do as Linux does.
var browsers = map[string][]string{
	"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}, "linux": {"xdg-open"},
}

// openView opens the page in the result's folder, made anew unless it is there
// and no older than the result.
func openView(ctx context.Context, dir string, term *terminal) error {
	page := filepath.Join(dir, "report.html")
	if !newerThan(page, filepath.Join(dir, reports.ResultFile)) {
		text, err := viewPage(dir, term)
		if err != nil {
			return err
		}
		if err := os.WriteFile(page, text, 0o644); err != nil {
			return fmt.Errorf("%w; trace view --listen needs no page in the folder", err)
		}
	}
	command, ok := browsers[runtime.GOOS]
	if !ok {
		command = browsers["linux"]
	}
	page, err := filepath.Abs(page)
	if err != nil {
		return err
	}
	fmt.Fprintln(term.out, printable(page, false))
	c := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], page)...)
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s did not open the page: %w %s; open it yourself, or serve it with --listen", command[0], err, bytes.TrimSpace(said))
	}
	return nil
}

func newerThan(name, other string) bool {
	a, err := os.Stat(name)
	if err != nil {
		return false
	}
	b, err := os.Stat(other)
	return err == nil && !a.ModTime().Before(b.ModTime())
}

// serveView serves the page until ctx ends.
func serveView(ctx context.Context, dir, address string, term *terminal) error {
	text, err := viewPage(dir, term)
	if err != nil {
		return err
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return usagef("--listen: %w", err)
	}
	if !at.IP.IsLoopback() {
		return usagef("--listen %s: not an address of the loopback interface (127.0.0.1, [::1]); for other machines: ssh -L", address)
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return err
	}
	fmt.Fprintf(term.out, "http://%s/\n", l.Addr())
	server := &http.Server{Handler: viewHandler(text, l.Addr().(*net.TCPAddr).Port), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // nothing is half said that matters
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// viewHandler serves the page to who asks for it by a name of this machine: a
// name that somebody else's server gave to 127.0.0.1 (DNS rebinding) is refused.
func viewHandler(page []byte, port int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		switch {
		case host != "localhost" && !ip.IsLoopback():
			http.Error(w, fmt.Sprintf("ask for http://127.0.0.1:%d/", port), http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
		case r.URL.Path != "/":
			http.NotFound(w, r)
		default:
			h.Set("Content-Type", "text/html; charset=utf-8")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(page))
		}
	})
}
