// Answers every request with the same 13 bytes; several workers share a port by the cluster module.
const http = require("node:http");
const cluster = require("node:cluster");
const body = "Hello, World!";
const workers = Number(process.env.TRACE_HTTP_WORKERS);

if (workers > 1 && cluster.isPrimary) {
  for (let i = 0; i < workers; i++) cluster.fork();
} else {
  http.createServer((request, response) => {
    response.setHeader("Content-Type", "text/plain");
    response.setHeader("Content-Length", body.length);
    response.end(body);
  }).listen(Number(process.env.TRACE_HTTP_PORT), "127.0.0.1");
}
