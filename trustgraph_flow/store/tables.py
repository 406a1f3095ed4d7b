"""The tables. What the migrations build and what this page says must be the same: a test compares them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Index, Integer, LargeBinary, MetaData, Table, Text, text

HEAD = "0003"
"""The newest migration, known here so that opening an up-to-date store need not import alembic."""

metadata = MetaData()

config_version = Table(
    "config_version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)

config_item = Table(
    "config_item",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("type", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", Double, nullable=False),
)

config_history = Table(
    "config_history",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("type", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Text),
    Column("updated_at", Double, nullable=False),
    Column("who", Text, nullable=False),
)

# Clustered by its key on SQLite: one tree to write, and a run's events lie side by side.
run_event = Table(
    "run_event",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("workspace", Text, nullable=False),
    sqlite_with_rowid=False,
)

# Says no more than the first event of each run does, and is written with it: to find runs by.
run = Table(
    "run",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("session_id", Text),
    Column("started_at", Double, nullable=False),
    Index("run_recent", "workspace", "started_at", "run_id"),
    Index(
        "run_session",
        "workspace",
        "session_id",
        "started_at",
        "run_id",
        sqlite_where=text("session_id IS NOT NULL"),
        postgresql_where=text("session_id IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

call_journal = Table(
    "call_journal",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("run_id", Text),
    Column("server", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("begun_at", Double, nullable=False),
    Column("done_at", Double),
    Column("outcome", Text),
    Index("call_journal_run", "run_id"),
    sqlite_with_rowid=False,
)

sign_in = Table(
    "sign_in",
    metadata,
    Column("workspace", Text, primary_key=True),
    Column("server", Text, primary_key=True),
    Column("tokens", Text),
    Column("expires_at", Double),
    Column("client", Text),
    Column("updated_at", Double, nullable=False),
)

artifact = Table(
    "artifact",
    metadata,
    Column("id", Text, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("run_id", Text),
    Column("call_id", Text),
    Column("mime_type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("artifact_run", "run_id"),
)
