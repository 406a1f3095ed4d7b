"""However a reply is cut into chunks, it streams and reads the same; and any text at all can be read."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_replies import FRAGMENTS, REPLIES, check, read

from trustgraph_flow.agent.react.parser import AnswerDelta, Parser, ThoughtDelta

replies = pytest.mark.parametrize("text", REPLIES.values(), ids=REPLIES.keys())
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=20).map("".join)


def cut(text: str, places: list[int]) -> list[str]:
    """The text in chunks, empty ones among them."""
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]


@replies
def test_every_single_cut_and_character_by_character_read_as_the_whole(text: str) -> None:
    check(text, list(text), *([text[:place], text[place:]] for place in range(len(text) + 1)))


@replies
def test_every_single_cut_of_a_constrained_or_cut_off_reply_reads_as_the_whole(text: str) -> None:
    for options in ({"constrained": True}, {"finish_reason": "length"}):
        whole = read([text], **options)
        assert read(list(text), **options) == whole
        assert all(read(cut(text, [place]), **options) == whole for place in range(len(text)))


@given(st.sampled_from(list(REPLIES.values())), st.lists(st.integers(min_value=0), max_size=12))
@settings(max_examples=400, deadline=None)
def test_any_cuts_of_a_reply_read_as_the_whole(text: str, places: list[int]) -> None:
    check(text, cut(text, places))


@given(texts, st.lists(st.integers(min_value=0), max_size=6))
@settings(max_examples=800, deadline=None)
def test_any_text_in_any_cuts_is_read_without_an_exception_and_alike(text: str, places: list[int]) -> None:
    check(text, list(text), cut(text, places))


def streamed(text: str) -> list[tuple[str, str]]:
    """After each character, what was shown by it."""
    parser = Parser()
    return [(char, "".join(event.text for event in parser.feed(char))) for char in text]


def test_an_answer_goes_out_character_by_character_with_only_space_kept_back() -> None:
    label, answer = "Final Answer:", " The beach is  wide. "
    shown = streamed(label + answer)
    assert [out for _, out in shown[: len(label)]] == [""] * len(label)
    assert [out for _, out in shown[len(label) :]] == [
        *(
            "",
            "T",
            "h",
            "e",
            "",
            " b",
            "e",
            "a",
            "c",
            "h",
            "",
            " i",
            "s",
            "",
            "",
            "  w",
            "i",
            "d",
            "e",
            ".",
            "",
        )
    ]


def test_a_thought_goes_out_at_once_unless_a_label_may_begin() -> None:
    shown = streamed("Thought: Thou art\nFin")
    assert "".join(out for _, out in shown) == "Thou art"
    assert shown[9:13] == [("T", "T"), ("h", "h"), ("o", "o"), ("u", "u")]
    parser = Parser()
    parser.feed("Thought: look\nFina")
    assert parser.feed("ncially sound") == [ThoughtDelta("\nFinancially sound")]


def test_a_bracket_is_kept_back_only_while_it_may_begin_a_tag() -> None:
    parser = Parser()
    parser.feed("Final Answer: a")
    assert parser.feed(" <th") == []
    assert parser.feed("e b") == [AnswerDelta(" <the b")]


def test_neither_labels_nor_tags_are_shown_when_they_are_split() -> None:
    chunks = ["Thou", "ght: look\nFin", "al Ans", "wer: It is <thi", "nk>x</th", "ink>four"]
    parser = Parser()
    assert [parser.feed(chunk) for chunk in chunks] == [
        [],
        [ThoughtDelta("look")],
        [],
        [AnswerDelta("It is")],
        [],
        [AnswerDelta(" four")],
    ]


def test_thought_and_answer_of_a_json_reply_go_out_while_their_strings_arrive() -> None:
    chunks = [
        '{"thou',
        'ght": "l',
        "\\u00",
        'f6ok", "final_an',
        'swer": "\\ud83d',
        "\\ude",
        '00 a\\"',
        ' b"',
        "}",
    ]
    parser = Parser(constrained=True)
    assert [parser.feed(chunk) for chunk in chunks] == [
        [],
        [ThoughtDelta("l")],
        [],
        [ThoughtDelta("öok")],
        [],
        [],
        [AnswerDelta('😀 a"')],
        [AnswerDelta(" b")],
        [],
    ]
    assert parser.done
