"""Answers every request with the same 13 bytes, a thread per connection."""
import http.server
import os
import socket

BODY = b"Hello, World!"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 4096  # head and body in one write, else the client's delayed ACK is measured
    disable_nagle_algorithm = True

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024

    def server_bind(self):
        if int(os.environ["TRACE_HTTP_WORKERS"]) > 1:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


Server(("127.0.0.1", int(os.environ["TRACE_HTTP_PORT"])), Handler).serve_forever()
