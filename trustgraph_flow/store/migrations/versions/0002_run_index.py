"""An index over the runs: which there are in a workspace and in a session, by their beginning."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run = op.create_table(
        "run",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("workspace", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text),
        sa.Column("started_at", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("run_recent", "run", ["workspace", "started_at", "run_id"])
    op.create_index(
        "run_session",
        "run",
        ["workspace", "session_id", "started_at", "run_id"],
        sqlite_where=sa.text("session_id IS NOT NULL"),
        postgresql_where=sa.text("session_id IS NOT NULL"),
    )
    started = op.get_bind().execute(
        sa.text("SELECT run_id, workspace, body, at FROM run_event WHERE seq = 1 AND kind = 'started'")
    )
    for rows in started.partitions(1000):
        op.bulk_insert(
            run,
            [
                {
                    "run_id": run_id,
                    "workspace": workspace,
                    "session_id": json.loads(body).get("session_id") or None,
                    "started_at": at,
                }
                for run_id, workspace, body, at in rows
            ],
        )
