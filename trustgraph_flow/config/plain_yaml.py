"""YAML whose plain words mean what they mean in JSON, and whose keys are strings, each there once."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml
from yaml.constructor import ConstructorError


class YamlFault(ValueError):
    """``msg`` says what is wrong, ``lineno`` where: from 1, None for the text as a whole."""

    def __init__(self, msg: str, lineno: int | None) -> None:
        super().__init__(msg)
        self.msg = msg
        self.lineno = lineno


def loads(text: str) -> Any:
    """The value of a YAML text, None for an empty one. Raises YamlFault and nothing else."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlFault(str(error.problem or error.context), mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, ValueError) as error:
        raise YamlFault(str(error), None) from None
    except RecursionError:
        raise YamlFault("nested too deeply", None) from None


class _Loader(yaml.SafeLoader):
    """``no``, ``00417``, ``12:30`` and ``2025-01-31`` stay text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (its base declares it for instances)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise _fault(key, f"the key {key.value!r} is no string, put it in quotes")
            if key.value in seen:
                raise _fault(key, f"the key {key.value!r} stands twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _fault(node: yaml.Node, problem: str) -> ConstructorError:
    return ConstructorError(None, None, problem, node.start_mark)


for _tag, _pattern, _first in (
    ("merge", r"<<", "<"),
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", "tf"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_first))
