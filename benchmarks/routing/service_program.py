"""A replica of a live service: it answers each request after ANSWER_S seconds."""

from __future__ import annotations

import asyncio
import os

from weft import serve

ANSWER_S = float(os.environ.get("ANSWER_S", "0.02"))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            if b" /health " not in head.split(b"\r\n", 1)[0]:
                await asyncio.sleep(ANSWER_S)
            writer.write(OK)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, serve.host(), serve.port())
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
