"""Which provider a process uses: the server at a URL, or the model that runs in the process itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .provider import Provider


async def open_provider(
    url: str | None, model: str | None, *, progress: Callable[[str], None] | None = None
) -> Provider:
    """A provider that has been tried out: a server that is down or refuses us is told here and now.

    Without ``url`` it is the local model, with ``model`` the path of a .gguf file or None for the default
    one, which is fetched at the first use; ``progress`` is told of that in plain words.
    Raises SetupError and ModelError.
    """
    # Each provider's library takes long to import, and a process uses one of them.
    if url is None:
        from .local import LocalModel

        return await LocalModel.start(Path(model) if model else None, progress=progress)
    from .openai_compatible import (
        OpenAICompatible,
        ServerSettings,
        key_from_environment,
    )

    provider = OpenAICompatible(ServerSettings(url, model, key_from_environment()))
    try:
        await provider.describe()
    except BaseException:
        await provider.close()
        raise
    return provider
