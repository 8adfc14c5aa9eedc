// Answers every request with the same 13 bytes; deno serve listens.
export default { fetch() { return new Response("Hello, World!"); } };
