"""A proxy on Flask and requests with a thread per connection: how small schedulers route their requests.

`python -m benchmarks.routing.flask_proxy PORT...`: passes requests to these ports in turn, and prints its port.
"""

from __future__ import annotations

import itertools
import logging
import sys
from typing import Any

import flask
import requests
from werkzeug.serving import WSGIRequestHandler, make_server


def main(ports: list[int]) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    turns = itertools.cycle(ports)
    app = flask.Flask(__name__)

    def handle(path: str) -> Any:
        url = f"http://127.0.0.1:{next(turns)}/{path}"
        answer = requests.post(
            url, data=flask.request.get_data(), headers={"Content-Type": "application/json"}, timeout=60
        )
        return answer.content, answer.status_code

    app.add_url_rule("/<path:path>", view_func=handle, methods=["POST"])
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
