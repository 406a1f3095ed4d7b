import json

import pytest

from trustgraph_flow.prompt import PromptSet
from trustgraph_flow.schema.errors import BadRequest, NotFound


def test_a_template_may_be_plain_text_or_an_item() -> None:
    prompts = PromptSet(
        {
            "template.plain": "Hello {{ name }}",
            "template.braces": "{{ name }}",
            "template.text": '"Hello {{ name }}"',
            "template.item": '{"id": "item", "prompt": "Hello {{ name }}", "response-type": "text"}',
        }
    )
    for id in ("plain", "text", "item"):
        assert prompts.render(id, {"name": "Ann"}) == "Hello Ann"
    assert prompts.render("braces", {"name": "Ann"}) == "Ann"
    assert prompts.ids() == ["braces", "item", "plain", "text"]


def test_an_item_says_what_kind_of_reply_it_wants() -> None:
    schema = {"type": "object"}
    value = json.dumps({"prompt": "p", "response-type": "json", "schema": schema})
    item = PromptSet({"template.j": value}).get("j")
    assert (item.response_type, item.output_schema) == ("json", schema)
    plain = PromptSet({"template.p": "p"}).get("p")
    assert (plain.response_type, plain.output_schema) == ("text", None)


@pytest.mark.parametrize("saved", ["Be brief.", '"Be brief."'])
def test_the_system_prompt_may_be_saved_plain_or_as_json(saved: str) -> None:
    assert PromptSet({"system": saved}).system == "Be brief."


@pytest.mark.parametrize("saved", ['"Quoted" at the start', '"open', '{"a": 1}', ""])
def test_a_system_prompt_that_only_looks_like_json_stays_as_it_is(saved: str) -> None:
    assert PromptSet({"system": saved}).system == saved


def test_a_workspace_without_a_system_prompt_has_an_empty_one() -> None:
    assert PromptSet({}).system == ""


def test_an_unknown_template_is_named_with_the_item_that_it_needs() -> None:
    with pytest.raises(NotFound, match=r"no prompt 'nope' here; save a prompt item 'template\.nope'"):
        PromptSet({"system": "s"}).render("nope", {})


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("{}", "prompt: Field required"),
        ('{"prompt": "p", "response-type": "xml"}', "response-type"),
        ('{"prompt": 5}', "prompt"),
    ],
)
def test_a_bad_item_is_a_fault_of_that_template_alone(value: str, fault: str) -> None:
    prompts = PromptSet({"template.bad": value, "template.good": "fine"})
    with pytest.raises(BadRequest, match=f"The prompt item 'template.bad' can't be used: .*{fault}"):
        prompts.render("bad", {})
    assert prompts.render("good", {}) == "fine"
