"""A replica that answers after a moment of work, with the standard library alone."""

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from weft import serve

WORK_S = 0.02


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave in one packet: the second would wait 40 ms for the client's acknowledgement

    def do_GET(self) -> None:
        if self.path != "/health":
            with serve.batch():
                time.sleep(WORK_S)
        body = json.dumps({"replica": os.environ.get("WEFT_JOB_ID", ""), "path": self.path}).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer((serve.host(), serve.port()), Handler).serve_forever()
