"""Alembic's folder: how a store of an older release becomes one of this release."""
