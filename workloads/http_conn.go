package workloads

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// httpTimeout bounds a request: one that takes longer is an error.
const httpTimeout = 5 * time.Second

// httpRequest is a request on a connection that is kept.
func httpRequest(place httpPlace, path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\n\r\n", path, place.Addr)
}

// httpAnswer is what matters of a response here.
type httpAnswer struct {
	status int
	size   int64 // bytes of the body
	closes bool  // the server will close the connection
}

func (a httpAnswer) ok() bool { return a.status >= 200 && a.status < 300 }

// errHTTPFraming is a response that is none, or one without a length.
var errHTTPFraming = errors.New("the server's answer is not HTTP/1.1 with a length")

// httpBodyEnd says how the end of a body is known.
type httpBodyEnd struct {
	length  int64 // -1: not given
	chunked bool
}

// readAnswer reads one response to its end. The body goes to w unless that is nil.
func readAnswer(r *bufio.Reader, w io.Writer) (a httpAnswer, err error) {
	end, err := a.readHead(r)
	if err != nil {
		return a, err
	}
	if w == nil {
		w = io.Discard
	}
	switch {
	case end.chunked:
		a.size, err = readChunks(r, w)
	case end.length >= 0:
		a.size = end.length
		_, err = io.CopyN(w, r, end.length)
	default:
		err = errHTTPFraming
	}
	return a, err
}

// readHead reads the status line and the fields.
func (a *httpAnswer) readHead(r *bufio.Reader) (end httpBodyEnd, err error) {
	end.length = -1
	line, err := httpLine(r)
	if err != nil {
		return end, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return end, errHTTPFraming
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return end, errHTTPFraming
	}
	for {
		if line, err = httpLine(r); err != nil || len(line) == 0 {
			return end, err
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case !ok:
			return end, errHTTPFraming
		case bytes.EqualFold(name, []byte("Content-Length")):
			if end.length, err = strconv.ParseInt(string(value), 10, 64); err != nil || end.length < 0 {
				return end, errHTTPFraming
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			end.chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Connection")):
			a.closes = bytes.EqualFold(value, []byte("close"))
		}
	}
}

// httpLine is the next line without its end; it holds until the next read.
func httpLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errHTTPFraming
	}
	return bytes.TrimRight(line, "\r\n"), err
}

// readChunks reads a body in chunks (RFC 9112, section 7.1) and gives its size.
func readChunks(r *bufio.Reader, w io.Writer) (size int64, err error) {
	for {
		line, err := httpLine(r)
		if err != nil {
			return size, err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseInt(string(digits), 16, 64)
		if err != nil || n < 0 {
			return size, errHTTPFraming
		}
		if n > 0 {
			if _, err := io.CopyN(w, r, n); err != nil {
				return size, err
			}
			size += n
		}
		for { // the end of the chunk, or after the last one trailers and an empty line
			if line, err = httpLine(r); err != nil {
				return size, err
			}
			if n > 0 || len(line) == 0 {
				break
			}
		}
		if n == 0 {
			return size, nil
		}
	}
}

// preflight asks a server count times at once on one connection and looks at
// the answers: status, framing, and the body unless want is empty. It gives the
// size of the body.
func preflight(place httpPlace, count int, want string) (int64, error) {
	c, err := net.DialTimeout("tcp", place.Addr, httpTimeout)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(httpTimeout)); err != nil {
		return 0, err
	}
	if _, err := c.Write(bytes.Repeat(httpRequest(place, place.Path), count)); err != nil {
		return 0, err
	}
	r := bufio.NewReader(c)
	var a httpAnswer
	for i := range count {
		var body bytes.Buffer
		if a, err = readAnswer(r, &body); err != nil {
			return 0, fmt.Errorf("answer %d of %d: %w", i+1, count, err)
		}
		switch {
		case !a.ok():
			return 0, fmt.Errorf("answer %d of %d: status %d", i+1, count, a.status)
		case want != "" && body.String() != want:
			return 0, fmt.Errorf("answer %d of %d: the body is %q, want %q", i+1, count, body.String(), want)
		case a.closes:
			return 0, fmt.Errorf("answer %d of %d: the server closes the connection", i+1, count)
		}
	}
	return a.size, nil
}
