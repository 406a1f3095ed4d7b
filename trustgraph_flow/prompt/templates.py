"""Jinja2 in a sandbox: an operator's template can't reach into Python, and the usual bombs are refused.

What comes in as a variable is data: it is printed as it is and never read as a template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from types import TracebackType
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment

from trustgraph_flow.schema.errors import BadRequest

MAX_OUTPUT_CHARS = 4_000_000
MAX_STEPS = 100_000
"""Numbers that the ``range`` calls of one rendering may hand out in all."""
MAX_REPEATED = 100_000
"""Characters or elements that one ``*`` may make of a text or list."""
MAX_BITS = 10_000
MAX_WIDTH = 1_000

_FILLING_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map"})
_WIDE_FILTERS = ("batch", "center", "indent", "slice")


class _Refused(Exception):
    """A template asks for more than it may have."""


class _Environment(SandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, (str, bytes)) and attr in _FILLING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """No ``format`` of texts: its widths have no limit."""

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            _check_product(left, right)
        elif operator == "**":
            _check_power(left, right)
        elif isinstance(left, (str, bytes)):
            raise _Refused("filling a text with % is switched off, use ~ to join texts")
        return super().call_binop(context, operator, left, right)


def _check_product(left: Any, right: Any) -> None:
    for many, times in ((left, right), (right, left)):
        if isinstance(many, Sequence) and isinstance(times, int) and len(many) * times > MAX_REPEATED:
            raise _Refused(f"a text or list repeated to more than {MAX_REPEATED:,} is too large")
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
        raise _Refused("the product is too large")


def _check_power(base: Any, exponent: Any) -> None:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > MAX_BITS:
        raise _Refused("the power is too large")


class _Steps:
    """The ``range`` of one rendering."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def __call__(self, *bounds: int) -> range:
        steps = range(*bounds)
        if len(steps) > self._left:
            raise _Refused(f"its ranges have more than {MAX_STEPS:,} steps")
        self._left -= len(steps)
        return steps


def _narrow(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)  # keeps Jinja2's marks on the function
    def limited(*arguments: Any, **named: Any) -> Any:
        for argument in (*arguments[1:], *named.values()):
            if isinstance(argument, int) and argument > MAX_WIDTH:
                raise _Refused(f"the filter {function.__name__.removeprefix('do_')} goes up to {MAX_WIDTH:,}")
        return function(*arguments, **named)

    return limited


def _json(value: Any, indent: int | None = None) -> str:
    """JSON for a model to read; Jinja2's own filter makes it safe for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def _environment() -> _Environment:
    environment = _Environment(undefined=StrictUndefined)
    for name in _WIDE_FILTERS:
        environment.filters[name] = _narrow(environment.filters[name])
    environment.filters["tojson"] = _json
    del environment.filters["format"]
    for name in ("lipsum", "range"):
        del environment.globals[name]
    return environment


_ENVIRONMENT = _environment()
_FILE = "<template>"


@lru_cache(maxsize=1024)
def _compiled(source: str) -> Template:
    return _ENVIRONMENT.from_string(source)


def render(source: str, variables: Mapping[str, Any], *, name: str) -> str:
    """The text. Raises BadRequest that names the template, the line and what is wrong."""
    try:
        template = _compiled(source)
    except TemplateSyntaxError as error:
        raise _bad(name, error.lineno, str(error.message)) from None
    except RecursionError:
        raise _bad(name, None, "it is nested too deeply") from None
    parts: list[str] = []
    size = 0
    try:
        for part in template.generate({"range": _Steps(), **variables}):
            size += len(part)
            if size > MAX_OUTPUT_CHARS:
                raise _Refused(f"its text is longer than {MAX_OUTPUT_CHARS:,} characters")
            parts.append(part)
    except Exception as error:  # whatever an operator's template does wrong is a fault of that template
        raise _bad(name, _line(error.__traceback__), _fault(error)) from error
    return "".join(parts)


def _bad(name: str, line: int | None, fault: str) -> BadRequest:
    where = f", line {line}" if line else ""
    return BadRequest(f"The template {name!r}{where}: {fault.rstrip('.')}.", data={"template": name})


def _line(trace: TracebackType | None) -> int | None:
    """The template's line in a traceback that Jinja2 has rewritten."""
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _fault(error: Exception) -> str:
    text = str(error) or type(error).__name__
    undefined = re.fullmatch(r"'(.*)' is undefined", text)
    if undefined:
        return f"the variable {undefined[1]!r} is not given, give it or use the filter default"
    return text
