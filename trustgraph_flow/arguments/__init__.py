"""The heart: a tool's arguments declared, shown, checked, and used to steer the model. No I/O.

It does not read replies (that is the agent's parser) and knows nothing of the kinds of tools.
"""

from .constrain import response_schema
from .declare import ArgumentsError
from .faults import Fault, FaultKind
from .jsontext import loads as strict_json
from .signature import Checked, Signature, compile_signature
from .text import LABELS, escape, one_line, quote_block, shorten, show_name, show_value

__all__ = [
    "LABELS",
    "ArgumentsError",
    "Checked",
    "Fault",
    "FaultKind",
    "Signature",
    "compile_signature",
    "escape",
    "one_line",
    "quote_block",
    "response_schema",
    "shorten",
    "show_name",
    "show_value",
    "strict_json",
]
