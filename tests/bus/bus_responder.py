"""A worker process for tests that kill one: ``python bus_responder.py URL TENANT SERVICE MODE``.

Prints ``ready`` when it serves and ``got`` when a request has come. MODE ``hold`` keeps each request,
``stream`` does so after a first frame, ``answer`` answers it, ``die`` kills the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from trustgraph_flow.bus import Bus, BusSettings, Request


async def main(url: str, tenant: str, service: str, mode: str) -> None:
    async def handle(request: Request) -> dict[str, str]:
        print("got", flush=True)
        if mode == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "stream":
            await request.send({"text": "first"})
        if mode in ("hold", "stream"):
            await asyncio.Event().wait()
        return {"text": f"{mode} {request.redelivered}"}

    async with Bus(BusSettings(url=url, tenant=tenant)) as bus:
        await bus.serve(service, handle, redeliveries=2)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
