"""What comes from outside can't steer a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_flow.cli.text import Cleaner, clean, one_line, shorten, to_json

HOSTILE = (
    "a\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ "
    "\x1bPq\x1b\\\x9b2Jb\x1b(B\x1bc"
)


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        (HOSTILE, "ared link b"),
        ("\u202eevil", "evil"),
        ("one\r\ntwo\rthree\x08\x00\x7f\x85", "one\ntwothree"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("北镇 é 🙂", "北镇 é 🙂"),
        (
            "<img src=x onerror=alert(1)> &lt;b&gt; [x](y) [red]",
            "<img src=x onerror=alert(1)> &lt;b&gt; [x](y) [red]",
        ),
        ("cut short \x1b[", "cut short ["),
        ("half a pair \ud83d", "half a pair ?"),
    ],
)
def test_escape_sequences_and_controls_are_taken_out_and_all_else_is_shown_as_text(
    given_text: str, shown: str
) -> None:
    assert clean(given_text) == shown


def test_a_message_of_many_lines_fits_one_line() -> None:
    assert one_line("first\n  second\x1b[2J\n") == "first second"


def test_long_text_says_how_long_it_is() -> None:
    assert shorten("x" * 20_000, 10) == "xxxxxxxxxx … (20,000 characters in all)"
    assert shorten("short", 10) == "short"


@given(st.text(alphabet=st.sampled_from("\x1b[]0;3m\x07\r\n\x9bPaé\\"), max_size=40), st.data())
def test_chunks_cut_anywhere_are_as_harmless_as_the_whole_text(text: str, data: st.DataObject) -> None:
    cleaner = Cleaner()
    shown = ""
    while text:
        size = data.draw(st.integers(1, len(text)))
        shown += cleaner.feed(text[:size])
        text = text[size:]
    shown += cleaner.finish()
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\r"}


def test_a_sequence_that_is_cut_in_two_leaves_nothing_behind() -> None:
    cleaner = Cleaner()
    assert cleaner.feed("a\x1b[3") + cleaner.feed("1mb\r") + cleaner.feed("\nc") + cleaner.finish() == "ab\nc"


@given(st.text())
def test_json_gives_back_the_exact_text_and_holds_no_control_character(text: str) -> None:
    shown = to_json({"text": text})
    assert json.loads(shown) == {"text": text}
    assert clean(shown) == shown


def test_json_keeps_letters_readable() -> None:
    assert to_json(["北镇"], indent=None) == '["北镇"]'
