// Answers every request with the same 13 bytes; several processes share the port.
Bun.serve({
  hostname: "127.0.0.1",
  port: Number(process.env.TRACE_HTTP_PORT),
  reusePort: Number(process.env.TRACE_HTTP_WORKERS) > 1,
  fetch() { return new Response("Hello, World!"); },
});
