"""Reading Pulsar URLs."""

from __future__ import annotations


def hosts(url: str) -> list[tuple[str, int]]:
    """The host and port pairs of a Pulsar URL; it may name several, separated by commas."""
    scheme, _, rest = url.partition("://")
    default = 6651 if scheme.endswith("ssl") else 6650
    pairs = []
    for place in rest.split("/", 1)[0].split(","):
        host, colon, port = place.rpartition(":")
        if colon and port.isdigit():
            pairs.append((host.strip("[]"), int(port)))
        else:
            pairs.append((place.strip("[]"), default))
    return pairs
