"""What the model reads of a tool's result."""

from __future__ import annotations

import pytest

from trustgraph_flow.agent.mcp_tool import NotAResult, ResultLimits, read_result

TEXT = {"type": "text", "text": "saved"}
PICTURE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}


def text_of(*blocks, **more):
    return read_result({"content": list(blocks), **more}).text


def test_an_error_of_the_tool_is_marked_as_one():
    answer = read_result({"content": [{"type": "text", "text": "quota used up"}], "isError": True})
    assert (answer.text, answer.is_error, answer.fault) == ("quota used up", True, "tool-error")


def test_words_that_sound_like_an_error_are_none():
    said = "Error: is a common first word in log files. 14 lines found."
    answer = read_result({"content": [{"type": "text", "text": said}], "isError": False})
    assert (answer.text, answer.is_error, answer.fault) == (said, False, None)


def test_every_kind_of_block_is_shown_or_noted():
    text = text_of(
        TEXT,
        {
            "type": "resource",
            "resource": {"uri": "demo://doc/1", "mimeType": "text/markdown", "text": "# Body"},
        },
        PICTURE,
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "demo://doc/2", "name": "second"},
        {"type": "resource", "resource": {"uri": "demo://bin", "blob": "AAEC"}},
        {"type": "hologram", "x": 1},
    )
    assert text.splitlines() == [
        "saved",
        "# Body",
        "[image/png, 8 bytes]",
        "[audio/wav, 4 bytes]",
        "[link second: demo://doc/2]",
        "[demo://bin, binary, 3 bytes]",
        "[hologram part, can't be shown]",
    ]


def test_base64_never_goes_into_the_text():
    assert "iVBORw0KGgo" not in text_of(PICTURE)


def test_programs_get_the_blocks_as_they_came():
    assert read_result({"content": [TEXT, PICTURE]}).content == [TEXT, PICTURE]


def test_an_empty_result_says_so():
    assert text_of() == "(no content)"


def test_an_empty_error_gets_words_of_ours():
    answer = read_result({"content": [], "isError": True})
    assert answer.is_error
    assert "said nothing" in answer.text


@pytest.mark.parametrize(
    "raw", [{"content": "text"}, {"content": None}, {}, {"content": ["text"]}, {"content": {"type": "text"}}]
)
def test_what_is_no_result_is_refused(raw):
    with pytest.raises(NotAResult):
        read_result(raw)


def test_a_question_to_a_person_is_not_taken_for_a_result():
    with pytest.raises(NotAResult, match="person"):
        read_result({"resultType": "input_required", "content": []})


@pytest.mark.parametrize("block", [{"type": "text"}, {"type": "image", "data": 5}, {"type": 7}, {}])
def test_a_malformed_block_is_noted_and_the_others_are_shown(block):
    assert text_of(TEXT, block).startswith("saved\n[")


def test_a_structured_value_is_shown_where_no_text_says_it():
    answer = read_result({"content": [TEXT], "structuredContent": {"id": 5, "tag": "ü"}})
    assert answer.text == 'saved\n{"id": 5, "tag": "ü"}'
    assert answer.object == answer.structured == {"id": 5, "tag": "ü"}


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (['{"id":  5}'], {"id": 5}),
        (["5"], {"result": 5}),
        (["five"], {"result": "five"}),
        (["one", "two"], {"result": ["one", "two"]}),
        (["1", '{"a": 2}'], {"result": [1, {"a": 2}]}),
        (['{"a": 1}'], {"result": {"a": 1}}),
    ],
)
def test_a_structured_value_that_the_text_says_already_is_not_repeated(texts, structured):
    blocks = [{"type": "text", "text": text} for text in texts]
    assert text_of(*blocks, structuredContent=structured) == "\n".join(texts)


def test_a_structured_value_alone_is_a_result():
    assert read_result({"structuredContent": {"n": 1}}).text == '{"n": 1}'


def test_a_long_text_keeps_head_and_tail_and_says_what_is_missing():
    answer = read_result({"content": [{"type": "text", "text": "a" * 6_000_000 + "é" * 6_000_000}]})
    assert len(answer.text) < 50_100
    assert "... 11,950,000 characters left out ..." in answer.text
    assert answer.text.startswith("aaa")
    assert answer.text.endswith("ééé")
    assert len(answer.model_dump_json()) < 3_000_000


def test_a_structured_value_of_a_thousand_rows_is_cut_in_the_text():
    rows = [{"row": n, "words": "x" * 100} for n in range(1000)]
    answer = read_result({"content": [], "structuredContent": {"rows": rows}})
    assert len(answer.text) < 50_100
    assert answer.object == {"rows": rows}


def test_a_structured_value_over_the_limit_is_left_to_the_text():
    answer = read_result({"content": [], "structuredContent": {"x": "y" * 1_100_000}})
    assert answer.object is None
    assert "characters left out" in answer.text


def test_a_picture_over_the_limit_becomes_a_note():
    big = {"type": "image", "data": "A" * 5_000_000, "mimeType": "image/png"}
    answer = read_result({"content": [TEXT, big]})
    assert answer.content[1]["text"] == "[image/png, 3,750,000 bytes]"
    assert answer.content[1]["truncated"]


def test_only_so_many_parts_are_kept():
    answer = read_result({"content": [TEXT] * 20}, ResultLimits(parts=3))
    assert answer.text.splitlines() == ["saved", "saved", "saved", "[17 more parts left out]"]
    assert len(answer.content) == 3
