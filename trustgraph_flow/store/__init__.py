"""The database: config items and their history, the run log, the call journal."""

from .call_journal import CallEntry, CallJournal
from .config_table import ConfigChange, ConfigEdit, ConfigItem, ConfigTable, ItemKey
from .run_index import Exchange, RunSummary
from .run_log import RunLog
from .store import Store

__all__ = [
    "CallEntry",
    "CallJournal",
    "ConfigChange",
    "ConfigEdit",
    "ConfigItem",
    "ConfigTable",
    "Exchange",
    "ItemKey",
    "RunLog",
    "RunSummary",
    "Store",
]
