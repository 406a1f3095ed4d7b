"""Replies of the kinds that models write, and what has to hold of the reading of any text."""

from __future__ import annotations

from collections.abc import Iterable

from trustgraph_flow.agent.react.parser import (
    AnswerDelta,
    AnswerStep,
    Event,
    FormatFault,
    Parser,
    Reply,
    ThoughtDelta,
)

CREATE_NOTE = 'Thought: store it\nAction: create_note\nArgs: {"title": "t", "body": "b", "meta": '

REPLIES = {
    "nested object": CREATE_NOTE + '{"filter": {"field": "colour", "op": "eq"}, "limit": 5}}',
    "braces in a string": 'Action: create_note\nArgs: {"title": "x", "body": "} and { and \\"}\\" again"}',
    "blank lines": 'Thought: need it\nin two lines.\n\nAction: f\n\n\nArgs: {\n  "a": 1,\n\n  "b": 2\n}\n',
    "carriage returns": 'Thought: one\r\ntwo.\r\n\r\nAction: f\r\n\r\nArgs: {\r\n  "a": 1\r\n}\r\n',
    "Python words": "Action: f\nArgs: {'a': True, \"b\": None, 'c': 'it\\'s \"so\"'}",
    "fenced arguments": 'Thought: x\nAction: f\nArgs:\n```json\n{"a": 1}\n```\n',
    "fenced turn": '```\nThought: x\nAction: f\nArgs: {"a": 1}\n```\n',
    "fenced answer": "```text\nThought: x\nFinal Answer: eight\n```\n",
    "labels inside an answer": "Final Answer: The form is:\n```\nAction: f\nArgs: {}\n```\nUse it so.\n",
    "no arguments": "Thought: look\nAction: list_servers\n",
    "empty arguments": "Action: list_servers\nArgs:\n",
    "action input": "Action: list_servers\nAction Input: {}",
    "prose first": 'I will hand this over now.\n\nAction: f\nArgs: {"a": 1}',
    "prose, then an answer": "I worked it out.\nFinal Answer: 8",
    "invented rest": 'Thought: x\nAction: f\nArgs: {"a": 1}\nObservation: 99\nThought: y\nFinal Answer: 99',
    "two rounds": 'Thought: first\nAction: f\nArgs: {}\nThought: second\nAction: g\nArgs: {"a": 5}\n',
    "one object": '{"thought": "l\\u00f6\\ud83d\\ude00k", "action": "f", "action_input": {"a": "b"}}',
    "half surrogate pairs": '{"final_answer": "a\\ud83d]\\ud83d\\u00{\\ude00\\ud83d\\ud83d\\ude00\\ud83d"}',
    "wrapped object": '{"tool_call": {"thought": "look", "action": "f", "action_input": {"a": 1}}}',
    "object with an answer": '```json\n{"thought": " so ", "final_answer": " a \\"b\\"\\n\\\\c\\u0020"}\n```',
    "plain object": '{"city": "Northtown", "high": 21}',
    "object after the answer": 'Final Answer: {"action": "f", "action_input": {}}',
    "bold labels": '**Thought:** look\n**Action:** `f`\n**Args:** `{"a": 1}`\n',
    "bold answer": "**Final Answer: it is *very* good**\n",
    "listed labels": '- Thought: x\n1. **Action**: "f"\n### ARGS: {"a": 1}',
    "full-width colons": 'Thought：查一下\nAction：天气_查询\nArgs：{"place": "北镇"}',
    "invisible marks": '\ufeffThought: x\n\u200bAction: f\nArgs: {"a": 1}',
    "think block": "<think>Maybe\nAction: g\nArgs: {}\nno.</think>\nThought: only look\nAction: f\nArgs: {}",
    "unopened think block": "maybe transfer...\nAction: g\nArgs: {}\n</think>\nFinal Answer: ok",
    "unclosed think block": "<think>Maybe\nAction: g\nArgs: {}",
    "thought block": "<thought>so\nAction: g</thought>\nAction: f",
    "think block in an answer": "Thought: look\nFinal Answer: It is <think>x</think>four < five <b>",
    "tag in an argument": 'Action: f\nArgs: {"a": "<think> is a tag"}',
    "raw newlines": 'Action: f\nArgs: {"a": "one\ntwo\tthree"}',
    "comments": 'Action: f\nArgs: {\n  "a": "x", // it\'s short\n  "b": "http://x/#y", /* } */ # {\n}\n',
    "string with an object": 'Action: f\nArgs: "{\\"a\\": \\"b\\"}"',
    "a scalar": "Action: f\nArgs: AB-7\n",
    "no labels": 'Thought: hmm\nAction f\nArgs {"a": 1',
    "cut off": 'Action: f\nArgs: {"a": "first half of the te',
    "observation first": "Observation: 5 <think>a</think>\nThought: so\nFinal Answer: 5",
    "arguments without a label": 'Action: f\n```\n{"a": 1}\n```',
    "stray object": 'Action: f\nI give {"a": 1}\n',
    "text after the object": 'Action: f\nArgs: {"a": 1} }} and "more\nObservation: no',
    "two objects": '{"action":"a"}{"action":"b"}',
    "not a number": 'Action: f\nArgs: {"a": NaN}',
    "empty answer": "Thought: x\nFinal Answer: \n ",
    "nothing": "",
}


def read(
    chunks: Iterable[str], *, constrained: bool = False, finish_reason: str | None = None
) -> tuple[list[Event], Reply]:
    """All events of a reply that arrives in these chunks, neighbours of one kind joined, and the result."""
    parser = Parser(constrained=constrained)
    events: list[Event] = []
    for chunk in chunks:
        events += parser.feed(chunk)
    last, reply = parser.finish(finish_reason)
    joined: list[Event] = []
    for event in events + last:
        if joined and type(joined[-1]) is type(event):
            joined[-1] = type(event)(joined[-1].text + event.text)
        else:
            joined.append(event)
    return joined, reply


def check(text: str, *cuts: list[str]) -> Reply:
    """Assert what holds of every text, and that each of the cuts is read as the whole is; the result."""
    events, reply = read([text])
    assert all(event.text for event in events)
    thought = "".join(event.text for event in events if isinstance(event, ThoughtDelta))
    assert reply.thought == thought == thought.strip()
    if isinstance(reply, AnswerStep):
        answer = "".join(event.text for event in events if isinstance(event, AnswerDelta))
        assert reply.answer == answer == answer.strip() != ""
    if isinstance(reply, FormatFault):
        assert reply.reason
        assert reply.message
    for chunks in cuts:
        assert read(chunks) == (events, reply), chunks
    assert read(text[: _done_after(text)]) == (events, reply)
    return reply


def _done_after(text: str) -> int | None:
    parser = Parser()
    for size, char in enumerate(text, 1):
        parser.feed(char)
        if parser.done:
            return size
    return None


FRAGMENTS = [
    *("Thought:", "Action:", "Args:", "Action Input:", "Final Answer:", "Observation:", "final_answer:"),
    *("\n", "\n\n", "\r\n", " ", "\t", "prose ", "get_forecast", "None", "null", "NaN", "1e400"),
    *("**", "`", "```", "```json\n", "~~~\n", "- ", "1. ", "### ", "：", "\ufeff", "\u3000", "\x00"),
    *("<think>", "</think>", "<thought>", "</thought>", "<thi", "<", "</"),
    *(
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "'",
        "\\",
        "\\n",
        "\\ud83d",
        "\\ude00",
        "\\u00",
        "\ud83d",
        "//",
        "/*",
    ),
    *("*/", "# c\n", '{"a": 1}', '{"a": "b', "{'a': True,}", '{"a": 1, "a": 2}', '"{\\"a\\": 1}"', "[1, 2]"),
    *('{"action":"a"', '"final_answer":"x', '"thought":"t', '"args":{', '{"tool":', "x"),
]
