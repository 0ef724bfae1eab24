"""A replica without a path for probes: it says itself when it can serve, and counts the requests of its warm-up."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from weft import serve

warm = 0


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/health" else 200)
        body = f"warmed up by {warm}".encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        global warm
        warm += self.rfile.read(int(self.headers["Content-Length"])) == b'{"x": 1}'
        self.do_GET()


if __name__ == "__main__":
    server = ThreadingHTTPServer((serve.host(), serve.port()), Handler)
    print("listening", flush=True)
    serve.ready()
    with serve.batch():
        pass
    server.serve_forever()
