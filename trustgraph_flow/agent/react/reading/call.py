"""A call whose parts are still being gathered."""

from __future__ import annotations

from dataclasses import dataclass, field

from .labels import names_no_action, tool_name
from .objects import Unreadable, arguments_in, load_object
from .steps import CallStep


@dataclass(slots=True)
class CallDraft:
    """What stood after ``Action:``, and in the place of the arguments when that was no object."""

    name: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    has_label: bool = False
    has_stray_object: bool = False

    def step(self, thought: str, arguments: str | None = None) -> CallStep:
        """The call with this object, or with none; raises ``Unreadable``."""
        name = tool_name("".join(self.name))
        if names_no_action(name):
            raise Unreadable("no-action")
        if arguments is not None:
            return CallStep(thought, name, *load_object(arguments))
        if self.has_stray_object and not self.has_label:
            raise Unreadable("no-args-label")
        return CallStep(thought, name, *arguments_in("".join(self.bare)))
