"""The database: config items and their history, the run log, the call journal, sign-ins, artifacts."""

from .artifacts import Artifact, ArtifactTable
from .call_journal import CallEntry, CallJournal
from .config_table import ConfigChange, ConfigEdit, ConfigItem, ConfigTable, ItemKey
from .run_index import Exchange, RunSummary
from .run_log import RunLog
from .sign_ins import SignIn, SignInTable
from .store import Store

__all__ = [
    "Artifact",
    "ArtifactTable",
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
    "SignIn",
    "SignInTable",
    "Store",
]
