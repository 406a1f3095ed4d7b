"""Tokens of sign-ins at MCP servers, and what tools returned that is no text."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sign_in",
        sa.Column("workspace", sa.Text, primary_key=True),
        sa.Column("server", sa.Text, primary_key=True),
        sa.Column("tokens", sa.Text),
        sa.Column("expires_at", sa.Double),
        sa.Column("client", sa.Text),
        sa.Column("updated_at", sa.Double, nullable=False),
    )
    op.create_table(
        "artifact",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workspace", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text),
        sa.Column("call_id", sa.Text),
        sa.Column("mime_type", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("artifact_run", "artifact", ["run_id"])
