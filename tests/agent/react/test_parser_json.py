"""How arguments are read: strict JSON, what is mended, what is refused; and replies that are one object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustgraph_flow.agent.react.parser import AnswerStep, CallStep, FormatFault, read_reply


def arguments(text: str) -> dict[str, Any]:
    reply = read_reply(f"Thought: x\nAction: f\nArgs: {text}")
    assert isinstance(reply, CallStep), reply
    return reply.arguments


def fault(text: str) -> FormatFault:
    reply = read_reply(f"Thought: x\nAction: f\nArgs: {text}")
    assert isinstance(reply, FormatFault), reply
    return reply


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=5), st.booleans(), st.sampled_from([None, 2]))
def test_whatever_is_valid_json_comes_unchanged(
    value: dict[str, Any], ascii: bool, indent: int | None
) -> None:
    reply = read_reply("Action: f\nArgs: " + json.dumps(value, ensure_ascii=ascii, indent=indent))
    assert isinstance(reply, CallStep)
    assert not reply.repaired
    assert reply.arguments == json.loads(json.dumps(value))


def test_nested_objects_come_whole() -> None:
    text = '{"title": "t", "meta": {"filter": {"field": "colour", "op": "eq"}, "limit": 5}}'
    assert arguments(text) == {"title": "t", "meta": {"filter": {"field": "colour", "op": "eq"}, "limit": 5}}


def test_braces_inside_a_string_are_its_text() -> None:
    text = r'{"title": "braces", "body": "use } to close and { to open, then \"}\" again"}'
    assert arguments(text)["body"] == 'use } to close and { to open, then "}" again'


def test_quotes_inside_valid_json_are_kept() -> None:
    assert arguments(r'{"title": "\"quoted\"", "body": "what is \"AI\"?"}') == {
        "title": '"quoted"',
        "body": 'what is "AI"?',
    }


def test_python_words_are_mended_outside_strings_only() -> None:
    assert arguments('{"account_id": 12, "amount": 2.5, "dry_run": True}') == {
        "account_id": 12,
        "amount": 2.5,
        "dry_run": True,
    }
    assert arguments('{"place": "Northtown", "units": None, "x": [False]}')["units"] is None
    assert arguments('{"title": "True story", "body": "None of it", "x": True}') == {
        "title": "True story",
        "body": "None of it",
        "x": True,
    }


def test_python_quotes_are_mended() -> None:
    text = """{'a': 'it\\'s "so"', 'b': ["x", 'y, "z": }'], /* ' */ 'c': "it's"}"""
    assert arguments(text) == {"a": 'it\'s "so"', "b": ["x", 'y, "z": }'], "c": "it's"}


def test_raw_newlines_and_tabs_in_strings_are_kept() -> None:
    assert arguments('{"title": "list", "body": "one\ntwo\tthree"}')["body"] == "one\ntwo\tthree"


def test_labels_and_tags_inside_a_string_are_its_text() -> None:
    body = "x\nObservation: ok\nFinal Answer: hi </think>\nAction: g\nArgs: {}"
    assert arguments(json.dumps({"body": body})) == {"body": body}
    assert arguments(f'{{"body": "{body}"}}') == {"body": body}


def test_newlines_written_as_two_characters_between_values_are_space() -> None:
    assert arguments('{"title": "x", "body": "y", "tags": \\n["a"]\\n}') == {
        "title": "x",
        "body": "y",
        "tags": ["a"],
    }


def test_trailing_commas_and_comments_are_mended_and_urls_kept() -> None:
    text = (
        '{\n  "title": "x", // short }\n  "body": "http://example.test/a", # {\n  "n": [1, /* 2, */ 3,],\n}'
    )
    assert arguments(text) == {"title": "x", "body": "http://example.test/a", "n": [1, 3]}


def test_bad_escapes_stand_for_themselves() -> None:
    assert arguments(r'{"a": "\d+ \$5 \_x", "b": "C:\dir\users", "c": "it\'s", "d": "\n"}') == {
        "a": r"\d+ \$5 \_x",
        "b": r"C:\dir\users",
        "c": "it's",
        "d": "\n",
    }


def test_a_string_whose_backslashes_can_be_read_in_two_ways_is_refused() -> None:
    reply = fault(r'{"path": "C:\path\new"}')
    assert reply.reason == "bad-json"
    assert "backslash" in reply.message


def test_a_mended_call_says_so() -> None:
    for text, repaired in (('{"a": 1}', False), ("{'a': 1}", True), ('"{\\"a\\": 1}"', True)):
        reply = read_reply(f"Action: f\nArgs: {text}")
        assert isinstance(reply, CallStep)
        assert (reply.arguments, reply.repaired) == ({"a": 1}, repaired)


@pytest.mark.parametrize(
    "text", ['{"a" 1}', '{"a": it\'s}', '{"a": "b" "c": 1}', '{"a": [1}', "{a: 1}", '{"a": "what is "AI"?"}']
)
def test_what_cannot_be_mended_without_a_guess_is_named_with_its_place(text: str) -> None:
    reply = fault(text)
    assert reply.reason == "bad-json"
    assert "Args is not valid JSON near" in reply.message
    assert 'Args: {"<argument>": <value>}' in reply.message


@pytest.mark.parametrize(
    "text", ["AB-7", '"AB-7"', '["AB-7"]', "7", "true", "-", '"[1]"', '"null"', "'AB-7'"]
)
def test_arguments_that_are_no_object_are_refused(text: str) -> None:
    reply = fault(text)
    assert reply.reason == "not-an-object"
    assert "must be a JSON object" in reply.message


def test_an_object_inside_a_string_is_unwrapped() -> None:
    assert arguments('"{\\"code\\": \\"AB-7\\"}"') == {"code": "AB-7"}
    assert arguments('\'{"code": "AB-7"}\'') == {"code": "AB-7"}
    assert arguments('""') == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"title": "t", "body": "first half of the te',
        '{"account_id": 12, "amount": 10',
        '{"a": [1, 2',
        '{"a": 1, // }',
        '{"a": "b\\"}',
        '"{\\"a\\": 1}',
    ],
)
def test_an_object_that_is_not_closed_is_never_closed_for_the_model(text: str) -> None:
    reply = fault(text)
    assert reply.reason == "cut-off"
    assert "cut off" in reply.message


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "[{'b': NaN}]"])
def test_numbers_that_are_not_finite_are_refused(text: str) -> None:
    reply = fault(f'{{"account_id": 12, "amount": {text}}}')
    assert reply.reason == "not-finite"
    assert arguments('{"a": "NaN", "b": "inf", "c": "1e400"}') == {"a": "NaN", "b": "inf", "c": "1e400"}


def test_a_name_given_twice_is_refused_at_any_depth() -> None:
    for text in ('{"a": 1, "a": 1}', '{"x": [{"a": 1, "a": 2}]}', "{'a': 1, \"a\": 2}"):
        reply = fault(text)
        assert reply.reason == "duplicate-keys"
        assert '"a" twice' in reply.message


def test_integers_of_any_length_that_python_carries_come_unchanged() -> None:
    digits = "9" * 4300
    assert arguments(f'{{"a": {digits}, "b": -12345678901234567890, "c": "00417"}}') == {
        "a": int(digits),
        "b": -12345678901234567890,
        "c": "00417",
    }
    assert fault(f'{{"a": {digits}9}}').reason == "number-too-long"


def test_deep_nesting_is_refused_without_recursion() -> None:
    assert arguments('{"a": ' + "[" * 99 + "]" * 99 + "}")
    assert fault('{"a": ' + "[" * 100_000).reason == "too-deep"
    assert fault('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}").reason == "too-deep"
    assert fault(json.dumps('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}")).reason == "too-deep"
    assert fault('{"a":' * 100_000).reason == "too-deep"


def test_half_a_surrogate_pair_is_refused_and_a_whole_one_read() -> None:
    assert arguments('{"a": "\\ud83d\\ude00", "b": "\\\\ud83d"}') == {"a": "😀", "b": "\\ud83d"}
    assert fault('{"a": "\\ud83d"}').reason == "bad-unicode"


def test_one_object_in_the_place_of_labels_is_a_call() -> None:
    inner = '{"thought": "look", "action": "get_forecast", "action_input": {"place": "Northtown"}}'
    expected = CallStep("look", "get_forecast", {"place": "Northtown"}, False)
    for text in (
        inner,
        inner.replace("action_input", "args"),
        inner.replace('"thought"', '"Thought"').replace("action_input", "Action Input"),
        f'{{"tool_call": {inner}}}',
        f"```json\n{inner}\n```",
        f"<think>so</think>\n{inner}\nObservation: x",
        f"Action:\n```json\n{inner}\n```",
    ):
        assert read_reply(text) == expected


def test_one_object_with_an_answer_is_an_answer() -> None:
    assert read_reply('{"thought": "a", "final_answer": "b\\nc"}') == AnswerStep("a", "b\nc")
    assert read_reply('{"final_answer": {"high": 21}}') == AnswerStep("", '{"high": 21}')
    assert read_reply('{"action": null, "final_answer": 8}') == AnswerStep("", "8")
    assert read_reply('{"answer": {"thought": "a", "final_answer": "b"}}') == AnswerStep("a", "b")


def test_the_first_step_of_an_object_counts() -> None:
    assert read_reply('{"action": "f", "final_answer": "x"}') == CallStep("", "f", {}, False)
    assert read_reply('{"final_answer": "x", "action": "f"}') == AnswerStep("", "x")
    assert read_reply('{"action":"a"}{"action":"b"}') == CallStep("", "a", {}, False)


def test_an_object_after_the_answer_label_is_the_answer() -> None:
    text = '{"action": "get_forecast", "action_input": {}}'
    assert read_reply(f"Final Answer: {text}") == AnswerStep("", text)


def test_a_plain_object_does_not_hide_the_step_after_it() -> None:
    assert read_reply('{"high": 21}\nFinal Answer: 21') == AnswerStep("", "21")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"thought": "x"}', "no-step"),
        ("{}", "no-step"),
        ('{"thought": "x", "action": null}', "no-action"),
        ('{"thought": "x", "action": "None", "args": {}}', "no-action"),
        ('{"action": ["f"], "args": {}}', "no-action"),
        ('{"action": "f", "args": [1]}', "not-an-object"),
        ('{"action": "transfer", "account_id": 12, "amount": 5}', "no-args-label"),
        ('{"action": "f", "args": {}, "action_input": {}}', "duplicate-keys"),
        ('{"action": "f", "args": {"a": 1, "a": 2}}', "duplicate-keys"),
        ('{"action": "f", "args": {"a": NaN}}', "not-finite"),
        ('{"thought": "x", "final_answer": " "}', "empty-answer"),
        ('{"thought": "x", "final_answer": ""}', "empty-answer"),
        ('{"thought": "x", "final_answer": "It i', "cut-off"),
        ('{"thought": "x", "final_answer": "It is"', "cut-off"),
        ('{"action": "f", "args": {"a": "b"', "cut-off"),
        ('{"action": f}', "bad-json"),
    ],
)
def test_an_object_that_is_no_step_is_a_fault(text: str, reason: str) -> None:
    reply = read_reply(text, constrained=True)
    assert isinstance(reply, FormatFault)
    assert reply.reason == reason
    assert '"args": {"<argument>": <value>}' in reply.message
    free = read_reply(text)
    assert isinstance(free, FormatFault)
    assert free.reason == reason
