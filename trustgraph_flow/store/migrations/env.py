"""Run by alembic. The caller hands over an open connection whose transaction it commits itself."""

from alembic import context

from trustgraph_flow.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
