"""Breaks the coercion table in every row, one at a time, and says whether a test notices.

    python benchmarks/mutate_coercion.py

Works on a copy of the package in a temporary folder. Ends with 1 if a change survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROW = '    ("{}", "{}"): Rule('

# What is broken, the module, the text in it and what stands there instead.
CHANGES = [
    *(
        (f"{given} to {declared}: row skipped", "rules", ROW.format(given, declared), f"    # {given}")
        for given, declared in (
            ("string", "integer"),
            ("number", "integer"),
            ("string", "number"),
            ("string", "boolean"),
            ("integer", "string"),
            ("number", "string"),
            ("boolean", "string"),
            ("string", "array"),
            ("string", "object"),
        )
    ),
    ("integer: spaces around it not taken", "rules", "text = given.strip()", "text = given"),
    (
        "integer: 140.0 as text not taken",
        "rules",
        "    whole = int(number)",
        "    return UNFIT\n    whole = 0",
    ),
    ("integer: 5.5 as text taken", "rules", "if whole == number and", "if"),
    ("integer: 5.5 taken", "rules", "int(given) if given.is_integer() else UNFIT", "int(given)"),
    (
        "integer: 1,000 taken",
        "rules",
        "    text = given.strip()\n    shape",
        "    text = given.replace(',', '')\n    shape",
    ),
    ("integer: 007 taken", "rules", "-?(?:0|[1-9][0-9]*)", "-?(?:[0-9]+)"),
    (
        "integer: true taken",
        "rules",
        '    ("string", "array")',
        '    ("boolean", "integer"): Rule(\'\', int),\n    ("string", "array")',
    ),
    ("number: 1e400 as text taken", "rules", "return number if sound(number) else UNFIT", "return number"),
    ("boolean: True not taken", "rules", '"True": True, ', ""),
    ("boolean: False not taken", "rules", ', "False": False', ""),
    ("boolean: yes taken", "rules", '"True": True, ', '"True": True, "yes": True, '),
    (
        "boolean: 1 taken",
        "rules",
        '    ("string", "array")',
        '    ("integer", "boolean"): Rule(\'\', bool),\n    ("string", "array")',
    ),
    ("boolean: empty text is false", "rules", '"True": True, ', '"True": True, "": False, '),
    ("string: Python's words sent", "rules", "return json.dumps(given)", "return str(given)"),
    (
        "string: objects taken",
        "rules",
        '    ("string", "array")',
        '    ("object", "string"): Rule(\'\', text_from_scalar),\n    ("string", "array")',
    ),
    (
        "string: lists taken",
        "rules",
        '    ("string", "array")',
        '    ("array", "string"): Rule(\'\', text_from_scalar),\n    ("string", "array")',
    ),
    (
        "string: text that looks like JSON read",
        "coerce",
        "plan.types = types_of(node)",
        'plan.types = tuple(kind.replace("string", "object") for kind in types_of(node))',
    ),
    (
        "array: red becomes a list",
        "rules",
        "    except ValueError:\n        return UNFIT",
        "    except ValueError:\n        return [given] if kind is list else UNFIT",
    ),
    ("array: an object as text taken", "rules", "if type(value) is kind and", "if"),
    (
        "null: kept where optional and not nullable",
        "coerce",
        "if item is None and name in self.droppable",
        "if False",
    ),
    ("null: left out where nullable", "coerce", "and not self._compile(sub)(None)", ""),
    ("null: left out where required", "coerce", "if name not in required and", "if"),
    ("unions: not looked into", "coerce", "        if self.union:\n", "        if False:\n"),
    (
        "unions: first branch before exact match",
        "coerce",
        "            if fits(value):\n",
        "            if False:\n",
    ),
    (
        "unions: a later type of a list not tried",
        "coerce",
        "            plan.exact = frozenset",
        "            plan.types = plan.types[:1]\n            plan.exact = frozenset",
    ),
    (
        "unions: a branch that does not fit taken",
        "coerce",
        "            if fits(mended):\n",
        "            if True:\n",
    ),
    ("objects: not looked into", "coerce", "        if type(value) is dict:\n", "        if False:\n"),
    ("lists: not looked into", "coerce", "        if type(value) is list:\n", "        if False:\n"),
    (
        "free-form objects: read",
        "coerce",
        'if isinstance(node.get("additionalProperties"), dict):\n            plan.extra = self.plan(',
        'if True:\n            plan.extra = Plan(types=("integer", "boolean")) or (',
    ),
    (
        "defaults: filled in",
        "coerce",
        "        return value if mended is None else mended\n\n    def _in_array",
        "        return {**dict.fromkeys(self.properties), **(mended or value)}\n\n    def _in_array",
    ),
]


def main() -> int:
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("trustgraph_flow/arguments", "trustgraph_flow/schema", "tests/arguments"):
            shutil.copytree(ROOT / name, Path(folder) / name)
        for name in ("trustgraph_flow/__init__.py", "pyproject.toml"):
            shutil.copy(ROOT / name, Path(folder) / name)
        if not passes(Path(folder)):
            print("the tests fail as they are")
            return 1
        for title, module, old, new in CHANGES:
            path = Path(folder) / "trustgraph_flow" / "arguments" / f"{module}.py"
            source = path.read_text(encoding="utf-8")
            if old not in source:
                print(f"NOT FOUND  {title}")
                survived += 1
                continue
            path.write_text(source.replace(old, new), encoding="utf-8")
            noticed = not passes(Path(folder))
            path.write_text(source, encoding="utf-8")
            survived += not noticed
            print(f"{'noticed ' if noticed else 'SURVIVED'}  {title}", flush=True)
    print(f"\n{len(CHANGES) - survived} of {len(CHANGES)} changes noticed")
    return 1 if survived else 0


def passes(folder: Path) -> bool:
    """Whether the tests of the table and of checking pass in the folder."""
    tests = [
        str(folder / "tests" / "arguments" / f"test_{name}.py")
        for name in ("coercion_table", "checking_calls")
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return (
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode == 0
    )


if __name__ == "__main__":
    sys.exit(main())
