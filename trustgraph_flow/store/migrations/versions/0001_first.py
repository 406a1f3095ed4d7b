"""The first tables: config items with their history, run events, the call journal."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    config_version = op.create_table(
        "config_version",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(config_version, [{"id": 1, "version": 0}])
    op.create_table(
        "config_item",
        sa.Column("workspace", sa.Text, primary_key=True),
        sa.Column("type", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
    )
    op.create_table(
        "config_history",
        sa.Column("workspace", sa.Text, primary_key=True),
        sa.Column("type", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("value", sa.Text),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
    )
    op.create_table(
        "run_event",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("workspace", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "call_journal",
        sa.Column("call_id", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("begun_at", sa.Double, nullable=False),
        sa.Column("done_at", sa.Double),
        sa.Column("outcome", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_index("call_journal_run", "call_journal", ["run_id"])
