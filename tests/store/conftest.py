"""The tests of the store run on SQLite, on disk and in memory, and on PostgreSQL where it is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from trustgraph_flow.store import Store


def _program(name: str) -> str | None:
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a PostgreSQL server of this test session, without a database name."""
    pytest.importorskip("psycopg")
    initdb, server = _program("initdb"), _program("postgres")
    if initdb is None or server is None:
        pytest.skip("PostgreSQL's programs are not installed")
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if user is not None:
            shutil.chown(folder, user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        subprocess.run(
            [
                initdb,
                "-D",
                folder / "data",
                "-A",
                "trust",
                "-U",
                "tg",
                "--no-sync",
                "--locale=C",
                "-E",
                "UTF8",
            ],
            user=user,
            cwd=folder,
            check=True,
            capture_output=True,
        )
        options = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "fsync": "off",
        }
        process = subprocess.Popen(
            [server, "-D", folder / "data", *(f"--{key}={value}" for key, value in options.items())],
            user=user,
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        for line in process.stderr:
            if "ready to accept connections" in line:
                break
        yield f"postgresql+psycopg://tg@127.0.0.1:{port}"
        process.terminate()
        process.communicate()


@pytest.fixture(params=["file", "memory", "postgresql"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "file":
        return f"sqlite:///{tmp_path}/tg.db"
    if request.param == "memory":
        return "sqlite://"
    return new_postgresql(request)


@pytest.fixture(params=["file", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database that several stores can open."""
    return f"sqlite:///{tmp_path}/tg.db" if request.param == "file" else new_postgresql(request)


def new_postgresql(request: pytest.FixtureRequest) -> str:
    import psycopg

    server: str = request.getfixturevalue("postgresql_server")
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(f"{server.replace('+psycopg', '')}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{server}/{name}"


@pytest.fixture
async def store(any_url: str) -> AsyncIterator[Store]:
    async with await Store.open(any_url) as opened:
        yield opened
