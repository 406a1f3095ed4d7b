"""A tool's arguments, compiled once: the schema, the words for the prompt, the check, the response schema."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .coerce import Notes, Plan, Planner
from .constrain import narrow
from .declare import read_declared, read_discovered
from .document import Document
from .faults import Explainer, Fault, not_an_object, not_json
from .jsontext import sound, unsound
from .merge import Origin, merge
from .show import OPEN, Describer
from .walk import Schema, mapping


@dataclass(frozen=True, slots=True)
class Checked:
    """A call after coercion. ``arguments`` go out only if ``ok``.

    ``coerced`` has one ``{"path", "given", "sent"?, "rule"}`` for each value that was changed; ``sent`` is
    absent where an optional null was left out. After 100 of them an entry says how many more there were.
    """

    arguments: dict[str, Any]
    coerced: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    @property
    def text(self) -> str:
        """All faults, one a line; no line can be read as a label of ours."""
        return "\n".join(fault.text for fault in self.faults)


@dataclass(frozen=True)
class Signature:
    """What a tool takes. Made by ``compile_signature``; it does not change.

    ``schema`` is the JSON Schema of the arguments as one object, None where anything passes. ``arguments`` is
    the declared list as it was given. ``text`` is the prompt's list of the arguments. ``drift`` says where
    the declared list and the server differ, ``warnings`` what was read other than written, and ``origin``
    who named an argument.
    """

    schema: Schema | None
    arguments: list[Any]
    text: str
    drift: list[str]
    warnings: list[str]
    origin: dict[str, Origin]
    _document: Document | None = field(repr=False, compare=False)
    _plan: Plan | None = field(repr=False, compare=False)

    def check(self, arguments: Any) -> Checked:
        """Coerces by the declared types, then validates; never changes what was given, never raises.

        All faults of the call are reported together.
        """
        if type(arguments) is not dict:
            return Checked({}, faults=[not_an_object(arguments)])
        if not sound(arguments):
            return Checked(arguments, faults=[not_json(path, why) for path, why in unsound(arguments)])
        notes = Notes()
        sent = arguments if self._plan is None else self._plan.mend(arguments, (), notes)
        faults = []
        if self._document is not None and not self._document.is_valid(sent):
            faults = self._explainer.faults(sent)
        return Checked(sent, notes.record(), faults)

    @cached_property
    def response(self) -> Schema:
        """The schema of the arguments for constrained decoding."""
        return {"type": "object"} if self._document is None else narrow(self._document)

    @cached_property
    def _explainer(self) -> Explainer:
        assert self._document is not None
        return Explainer(self._document)


def compile_signature(arguments: Any, *, defs: Any = None, input_schema: Any = None) -> Signature:
    """The signature of a tool.

    ``arguments`` is the raw list of the tool item, None where it has no such key; ``defs`` its ``$defs``;
    ``input_schema`` what the MCP server says, None where it is not known. Raises ArgumentsError, naming every
    bad entry, if the declared list can't be used; a server's schema that can't be used is a warning.
    """
    warnings: list[str] = []
    if arguments is not None:
        declared = read_declared(arguments, defs)
        warnings.extend(declared.warnings)
    server = read_discovered(input_schema, warnings)
    drift: list[str] = []
    origin: dict[str, Origin] = {}
    document = server
    if arguments is not None:
        merged = merge(declared, None if server is None else server.references)
        drift, origin = merged.drift, merged.origin
        try:
            document = Document(merged.schema)
        except ValueError:
            warnings.append(
                "the server's schema does not combine with the declared arguments, which stand alone"
            )
            document = Document(merged.plain)
    elif server is not None:
        flat = server.references.flat(server.root)
        origin = dict.fromkeys(mapping(flat, "properties"), "discovered")
    plan = None if document is None else Planner(document.references, document.check).plan(document.root)
    return Signature(
        schema=None if document is None else document.root,
        arguments=copy.deepcopy(arguments) if arguments is not None else [],
        text=OPEN if document is None else Describer(document.references).arguments(document.root),
        drift=drift,
        warnings=warnings,
        origin=origin,
        _document=document,
        _plan=plan,
    )
