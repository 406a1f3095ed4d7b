"""Tables: wrapped to the window on a terminal, one row a line on a pipe."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from trustgraph_flow.cli.render import plain_console
from trustgraph_flow.cli.text import clean, one_line

_PIPE_WIDTH = 100_000


@dataclass(frozen=True, slots=True)
class Column:
    """``style`` is rich's and only seen on a terminal."""

    title: str
    style: str = ""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, none: str) -> None:
    """Prints rows of text from outside; ``none`` is said on standard error where there are none."""
    if rows:
        show(table(columns, rows))
    else:
        print(none, file=sys.stderr)


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Table:
    """A table without the columns that are empty in every row."""
    made = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
    kept = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    for index in kept:
        made.add_column(Text(columns[index].title), style=columns[index].style, overflow="fold")
    for row in rows:
        made.add_row(*(Text(_cell(row[index])) for index in kept))
    return made


def show(*parts: RenderableType) -> None:
    """Prints to standard output, without trailing blanks on a pipe."""
    if sys.stdout.isatty():
        plain_console(sys.stdout).print(*parts, sep="\n")
        return
    drawn = io.StringIO()
    Console(file=drawn, width=_PIPE_WIDTH, markup=False, emoji=False, highlight=False).print(*parts, sep="\n")
    for line in drawn.getvalue().splitlines():
        print(line.rstrip())


def _cell(text: str) -> str:
    return clean(text) if sys.stdout.isatty() else one_line(text)
