"""What each kind of reply is read as: labels, blocks, fences, and where a step ends."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_flow.agent.react.parser import (
    AnswerDelta,
    AnswerStep,
    CallStep,
    FormatFault,
    Parser,
    read_reply,
)

FORECAST = 'Action: get_forecast\nArgs: {"place": "Northtown"}'


def call(text: str, **options: Any) -> tuple[str, dict[str, Any]]:
    reply = read_reply(text, **options)
    assert isinstance(reply, CallStep), reply
    return reply.action, reply.arguments


def answer(text: str, **options: Any) -> str:
    reply = read_reply(text, **options)
    assert isinstance(reply, AnswerStep), reply
    return reply.answer


def reason(text: str, **options: Any) -> str:
    reply = read_reply(text, **options)
    assert isinstance(reply, FormatFault), reply
    return reply.reason


def test_blank_lines_and_pretty_printed_arguments_stand_between_labels() -> None:
    text = (
        "Thought: I need the outlook\nover two lines.\n\nAction: get_forecast\n\n\n"
        'Args: {\n    "place": "Northtown",\n\n    "days": 2\n}\n'
    )
    expected = CallStep(
        "I need the outlook\nover two lines.", "get_forecast", {"place": "Northtown", "days": 2}, False
    )
    assert read_reply(text) == expected
    windows = read_reply(text.replace("\n", "\r\n"))
    assert isinstance(windows, CallStep)
    assert windows.thought.splitlines() == expected.thought.splitlines()
    assert (windows.action, windows.arguments) == (expected.action, expected.arguments)


def test_fenced_arguments_and_a_fenced_turn_are_read() -> None:
    fenced = '```json\n{"place": "Northtown"}\n```'
    expected = CallStep("call it", "get_forecast", {"place": "Northtown"}, False)
    assert read_reply(f"Thought: call it\nAction: get_forecast\nArgs:\n{fenced}") == expected
    assert read_reply(f"Thought: call it\nAction: get_forecast\nArgs: {fenced}") == expected
    assert read_reply(f"```\nThought: call it\n{FORECAST}\n```") == expected
    assert read_reply(f"Thought: call it\n```\n{FORECAST}\n```") == expected


def test_the_fence_of_a_whole_turn_is_no_part_of_its_answer() -> None:
    assert answer("```\nThought: x\nFinal Answer: 8\n```\n") == "8"
    assert answer("```\nFinal Answer: use ``` so\n```") == "use ``` so"


def test_labels_quoted_inside_an_answer_stay_text() -> None:
    text = "The format is:\n```\nAction: list_servers\nArgs: {}\n```\nUse it as shown."
    assert answer(f"Final Answer: {text}") == text


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "\n",
        "\nArgs:",
        "\nArgs: \n\n",
        "\nAction Input: {}",
        "\nArgs: null",
        "\nargs: None",
        "\nArgs: `{}`",
    ],
)
def test_no_arguments_are_an_empty_object(rest: str) -> None:
    assert read_reply(f"Thought: see\nAction: list_servers{rest}") == CallStep(
        "see", "list_servers", {}, False
    )


def test_arguments_are_found_without_their_label_where_a_line_is_an_object() -> None:
    for rest in ('{"a": 1}', '```json\n{"a": 1}\n```', 'As follows.\n\n{"a": 1}', '`{"a": 1}`'):
        assert call(f"Action: f\n{rest}") == ("f", {"a": 1})


def test_an_object_in_a_line_that_no_label_begins_is_never_replaced_by_no_arguments() -> None:
    assert reason('Action: f\nInput: {"a": 1}') == "no-args-label"


def test_prose_before_the_action_is_the_thought() -> None:
    assert read_reply(f"I will hand this over now.\n\n{FORECAST}") == CallStep(
        "I will hand this over now.", "get_forecast", {"place": "Northtown"}, False
    )


def test_an_answer_needs_no_thought_label() -> None:
    assert read_reply("Final Answer: 8") == AnswerStep("", "8")
    assert read_reply("I worked it out.\nFinal Answer: 8") == AnswerStep("I worked it out.", "8")


def test_an_invented_observation_and_what_follows_are_dropped() -> None:
    text = f"Thought: need the outlook\n{FORECAST}\n"
    rest = 'Observation: {"sky": "clear", "high": 99}\nThought: I now know\nFinal Answer: 99 degrees.'
    parser = Parser()
    events = parser.feed(text + rest)
    last, reply = parser.finish()
    assert "99" not in repr([events, last, reply])
    assert reply == read_reply(text)


def test_only_the_first_of_several_actions_counts() -> None:
    text = 'Thought: first\nAction: list_servers\nArgs: {}\nThought: second\nAction: g\nArgs: {"amount": 5}'
    assert read_reply(text) == CallStep("first", "list_servers", {}, False)
    assert call("Action: list_servers\nAction: transfer\nArgs: {}") == ("list_servers", {})


def test_the_model_can_be_stopped_once_a_labelled_step_is_followed_by_a_label() -> None:
    parser = Parser()
    parser.feed(f"Thought: x\n{FORECAST}\n")
    assert not parser.done
    parser.feed("Observation:")
    assert parser.done


def test_text_after_the_object_is_dropped() -> None:
    assert call(f'{FORECAST} }} and "more" {{\nso {{"place": "x"}}') == (
        "get_forecast",
        {"place": "Northtown"},
    )


def test_an_observation_before_any_step_is_no_thought() -> None:
    text = "Observation: 21 degrees\nThought: I now know\nFinal Answer: 21"
    assert read_reply(text) == AnswerStep("I now know", "21")


@pytest.mark.parametrize(
    "text",
    [
        '**Thought:** look it up\n**Action:** `get_forecast`\n**Args:** `{"place": "Northtown"}`',
        '**Thought**: look it up\n**Action**: "get_forecast"\n**Args**: {"place": "Northtown"}',
        '### Thought: look it up\n### Action: get_forecast\n### Args:\n{"place": "Northtown"}',
        '- Thought: look it up\n- Action: get_forecast\n- Args: {"place": "Northtown"}',
        '1. Thought: look it up\n2. Action: [get_forecast]\n3. Args: {"place": "Northtown"}',
        'thought: look it up\naction: get_forecast\nARGS: {"place": "Northtown"}',
        '> *Thought*: look it up\n> *Action: get_forecast*\n> *Args*: {"place": "Northtown"}',
        '  Thought : look it up\n\tAction : <get_forecast>\n  Args : {"place": "Northtown"}',
        '`Thought:` look it up\n`Action:` get_forecast\n`Args:` {"place": "Northtown"}',
        'Thought：look it up\nAction：get_forecast\nArgs：{"place": "Northtown"}',
        '\ufeffThought: look it up\n\u200bAction: \u200bget_forecast\n\u200bArgs: {"place": "Northtown"}',
        'Thought: look it up\nAction:\nget_forecast\nAction_Input: {"place": "Northtown"}',
    ],
)
def test_markdown_case_and_colons_of_labels_and_names_do_not_matter(text: str) -> None:
    assert read_reply(text) == CallStep("look it up", "get_forecast", {"place": "Northtown"}, False)


def test_a_label_counts_only_at_the_start_of_a_line() -> None:
    assert read_reply("Thought: My action: waiting\nFinal Answer: my Action: go") == AnswerStep(
        "My action: waiting", "my Action: go"
    )
    assert reason("Thought: Action: waiting") == "no-step"
    assert reason("Thoughts: a\nActions: b\nMy Final Answer: c") == "no-step"


def test_bold_around_a_labelled_answer_is_dropped_and_bold_inside_is_kept() -> None:
    assert answer("**Final Answer: 8**") == "8"
    assert answer("**Final Answer:** **8** or *9*") == "**8** or *9*"
    assert answer("**Final Answer: it is **very** good**\n") == "it is **very** good"
    assert answer("Final Answer: **8**") == "**8**"
    assert answer("Final Answer:`8`") == "`8`"


@pytest.mark.parametrize(
    "name",
    [
        "calendar.update",
        "docs/append text",
        "New Tool",
        "a-b",
        "a_b",
        "_a_",
        "天气_查询",
        "prévision-météo",
        "functions.get_forecast",
        "get_forecast()",
        "x" * 5000,
    ],
)
def test_a_name_comes_whole_and_letter_for_letter(name: str) -> None:
    assert call(f"Action: {name}\nArgs: {{}}") == (name, {})
    assert call(f'**Action:** "`{name}`" \nArgs: {{}}') == (name, {})
    assert call(f"Action: {name}") == (name, {})


def test_values_of_other_scripts_come_unchanged() -> None:
    assert call('Thought：查一下\nAction：f\nArgs：{"place": "北镇", "days": 2}') == (
        "f",
        {"place": "北镇", "days": 2},
    )


def test_labels_of_other_languages_are_no_step() -> None:
    assert reason("行动: get_forecast\n参数: {}") == "no-step"


@pytest.mark.parametrize(
    "name", ["", "None", "none", "N/A", "null", "`None`", "None.", "no action", "Final Answer"]
)
def test_an_action_that_names_nothing_is_a_fault(name: str) -> None:
    assert reason(f"Thought: x\nAction: {name}") == "no-action"
    assert reason(f"Thought: x\nAction: {name}\nArgs: {{}}") == "no-action"
    assert reason(f"Action: {name}\nFinal Answer: 8") == "no-action"


def test_arguments_without_an_action_are_a_fault() -> None:
    assert reason('Thought: x\nArgs: {"a": 1}\nAction: f') == "no-action"


def test_a_call_drafted_in_a_think_block_is_not_run() -> None:
    draft = 'Maybe\nAction: transfer\nArgs: {"account_id": 12, "amount": 500}\nno, too risky.'
    step = "\nThought: only look\nAction: list_servers\nArgs: {}"
    for opening, closing in (
        ("<think>", "</think>"),
        ("<thinking>", "</thinking>"),
        ("<THINK>\n", "</Think>"),
    ):
        assert read_reply(opening + draft + closing + step) == CallStep(
            "only look", "list_servers", {}, False
        )
    for unopened in (
        draft,
        "Thought: so\n" + draft,
        "Action: transfer\nArgs: {}\n",
        draft + "\nObservation: ok\n",
    ):
        assert call(unopened + "</think>" + step) == ("list_servers", {})


def test_an_answer_drafted_in_an_unopened_think_block_is_neither_shown_nor_given() -> None:
    parser = Parser()
    events = parser.feed("Is it 42?\nFinal Answer: 42\nno, wait.</think>\nFinal Answer: 43")
    last, reply = parser.finish()
    assert isinstance(reply, AnswerStep)
    assert reply.answer == "43"
    assert [event for event in events + last if isinstance(event, AnswerDelta)] == [AnswerDelta("43")]


def test_an_answer_follows_an_unopened_think_block() -> None:
    assert answer("maybe transfer...</think>\nFinal Answer: ok") == "ok"


def test_a_think_block_that_is_never_closed_holds_no_step() -> None:
    assert reason("<think>Maybe\nAction: transfer\nArgs: {}") == "think-unclosed"
    assert reason("Thought: x\n<think>Maybe\nFinal Answer: y") == "think-unclosed"
    assert reason("Action: transfer\n<think>which account?") == "think-unclosed"


def test_a_step_that_was_complete_before_an_unclosed_think_block_stands() -> None:
    assert call(f"{FORECAST}\n<think>what now") == ("get_forecast", {"place": "Northtown"})


def test_a_tag_inside_an_argument_is_its_text() -> None:
    body = "<think> is a tag, </think> too"
    assert call(f'Action: f\nArgs: {{"title": "tag", "body": "{body}"}}') == (
        "f",
        {"title": "tag", "body": body},
    )


def test_a_thought_block_is_the_thought_and_holds_no_step() -> None:
    text = "<thought>look\nAction: transfer\n</thought>\nAction: list_servers"
    assert read_reply(text) == CallStep("look\nAction: transfer", "list_servers", {}, False)


def test_think_blocks_are_cut_out_of_an_answer() -> None:
    text = "Thought: look\nFinal Answer: It is <think>x</think>four"
    assert read_reply(text) == AnswerStep("look", "It is four")


def test_an_unclosed_tag_does_not_swallow_the_rest_of_an_answer() -> None:
    assert answer("Final Answer: The <think> tag opens a block.") == "The <think> tag opens a block."


@pytest.mark.parametrize("text", ["Final Answer:", "Final Answer: \n \t", "**Final Answer:** \n"])
def test_an_empty_answer_is_a_fault(text: str) -> None:
    assert reason(text) == "empty-answer"


def test_the_chunks_of_an_answer_join_to_it_from_the_first_on() -> None:
    parser = Parser()
    assert parser.feed("Final Answer: The") == [AnswerDelta("The")]
    assert parser.feed("") == []
    assert parser.feed(" beach is wide.") == [AnswerDelta(" beach is wide.")]
    assert parser.feed("") == []
    assert parser.finish("stop") == ([], AnswerStep("", "The beach is wide."))


def test_halves_of_surrogate_pairs_do_not_reach_the_outside() -> None:
    assert answer("Final Answer: a\ud83db") == "a\ufffdb"


@pytest.mark.parametrize(
    "text",
    [
        "Thought: I need",
        "Action: list_serv",
        "Action: list_servers\n",
        "Action: list_servers\nArgs:",
        "Final Answer: The beach is",
        "<think>so",
        'Action: f\nArgs: {"account_id": 12, "amount": 10',
    ],
)
def test_a_reply_that_a_token_limit_has_cut_is_not_run(text: str) -> None:
    assert reason(text, finish_reason="length") == "cut-off"
    assert "cut off" in read_reply(text, finish_reason="length").message  # type: ignore[union-attr]


def test_a_call_that_was_complete_before_the_cut_is_run() -> None:
    assert call(f"{FORECAST}\nObserva", finish_reason="length") == ("get_forecast", {"place": "Northtown"})
