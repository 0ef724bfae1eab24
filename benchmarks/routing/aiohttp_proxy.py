"""A proxy on aiohttp's server and client, with uvloop if it is there: the usual way to write one in Python.

`python -m benchmarks.routing.aiohttp_proxy PORT...`: passes requests to these ports in turn, and prints its port.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

import aiohttp
from aiohttp import web


async def main(ports: list[int]) -> None:
    turns = itertools.cycle(ports)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def handle(request: Any) -> Any:
        body = await request.read()
        url = f"http://127.0.0.1:{next(turns)}{request.rel_url}"
        async with session.request(request.method, url, data=body, headers=request.headers) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), headers={"Content-Type": answer.headers["Content-Type"]}
            )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main([int(word) for word in sys.argv[1:]]))
    else:
        uvloop.run(main([int(word) for word in sys.argv[1:]]))
