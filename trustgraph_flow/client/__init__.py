"""The Python client: ``AsyncClient`` and ``Client`` speak to a gateway for one workspace."""

from .async_client import AsyncClient
from .settings import DEFAULT_URL, ClientSettings
from .stored import ConfigContents, Download, Stored
from .sync_client import Client
from .transport import CredentialsRefused

__all__ = [
    "DEFAULT_URL",
    "AsyncClient",
    "Client",
    "ClientSettings",
    "ConfigContents",
    "CredentialsRefused",
    "Download",
    "Stored",
]
