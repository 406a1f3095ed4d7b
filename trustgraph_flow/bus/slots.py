"""Numbers for the processes that share one embedded broker.

A number is held as an abstract Unix socket: such a name lives in the network namespace, as the broker's
loopback address does, and is free again the moment that its holder dies.
"""

from __future__ import annotations

import errno
import random
import socket

from trustgraph_flow.schema.errors import SetupError

from .urls import hosts

SLOTS = 16
LOOPBACK = frozenset({"127.0.0.1", "localhost"})


def claim_broker(port: int) -> socket.socket | None:
    """Say that the broker on this port is an embedded one, as long as the socket is open."""
    return _claim(_broker_name(port))


def claim_slot(url: str) -> tuple[int, socket.socket] | None:
    """A number below ``SLOTS`` that no other bus on this embedded broker holds; None for any other broker."""
    places = hosts(url)
    if len(places) != 1 or places[0][0] not in LOOPBACK:
        return None
    port = places[0][1]
    if not _is_held(_broker_name(port)):
        return None
    # From a random one on: after a kill the broker now and then keeps the consumers of the dead process, and
    # with the lowest number the next process would meet them each time.
    first = random.randrange(SLOTS)
    for slot in (*range(first, SLOTS), *range(first)):
        held = _claim(f"{_broker_name(port)}/{slot}")
        if held is not None:
            return slot, held
    raise SetupError(
        f"{SLOTS} processes have workers on the embedded broker at {url} already, "
        "which is as many as it can serve: start Apache Pulsar and name it with --pulsar-host"
    )


def _broker_name(port: int) -> str:
    return f"\0trustgraph-flow-react/broker/{port}"


def _claim(name: str) -> socket.socket | None:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind(name)
    except OSError as error:
        holder.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return holder


def _is_held(name: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        return probe.connect_ex(name) == 0
