"""The text-completion service and its model providers."""

from .opening import open_provider
from .service import LlmService

__all__ = ["LlmService", "open_provider"]
