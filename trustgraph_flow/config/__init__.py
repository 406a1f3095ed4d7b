"""The config service, the watcher that each service uses, and config as files."""

from .files import default_folder, load_defaults, read_folder
from .service import ConfigService
from .watcher import ConfigView, ConfigWatcher

__all__ = [
    "ConfigService",
    "ConfigView",
    "ConfigWatcher",
    "default_folder",
    "load_defaults",
    "read_folder",
]
