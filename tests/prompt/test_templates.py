import pytest

from trustgraph_flow.prompt import render
from trustgraph_flow.schema.errors import BadRequest


def fault(source: str, **variables: object) -> str:
    with pytest.raises(BadRequest) as caught:
        render(source, variables, name="greet")
    return caught.value.message


def test_variables_are_filled_in() -> None:
    source = "{% for tool in tools %}{{ loop.index }} {{ tool.name }}\n{% endfor %}{{ question }}"
    text = render(source, {"tools": [{"name": "a"}, {"name": "b"}], "question": "Why?"}, name="t")
    assert text == "1 a\n2 b\nWhy?"


@pytest.mark.parametrize(
    "data", ["{{ 7 * 7 }}", "{% raise %}", "{# gone #}", "{{", "%}", "<b> & \"'", "# line"]
)
def test_what_comes_in_as_a_variable_is_never_a_template(data: str) -> None:
    assert render("<{{ x }}>", {"x": data}, name="t") == f"<{data}>"
    assert render("<{{ x.y[0] }}>", {"x": {"y": [data]}}, name="t") == f"<{data}>"


def test_a_missing_variable_is_named_with_its_line() -> None:
    assert fault("one\ntwo {{ who }}") == (
        "The template 'greet', line 2: the variable 'who' is not given, give it or use the filter default."
    )


def test_a_missing_part_of_a_variable_is_named() -> None:
    assert "line 1: 'dict object' has no attribute 'name'" in fault("{{ tool.name }}", tool={})


def test_a_missing_variable_may_have_a_default() -> None:
    assert render("{{ who | default('you') }}", {}, name="t") == "you"


@pytest.mark.parametrize(
    "source", ["a\n{{ 1 + }}", "a\n{% if %}", "a\n{% for x in y %}\n", "a\n{{ x | nope }}"]
)
def test_a_template_that_can_not_be_read_is_named_with_its_line(source: str) -> None:
    assert "The template 'greet', line " in fault(source, x=1, y=[])


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ x.__init__.__globals__ }}",
        "{{ x | attr('__class__') }}",
        "{{ x['__class__'] }}",
        "{{ self.__init__ }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{% set y = x.append(1) %}{{ y.__self__ }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
    ],
)
def test_a_template_reaches_nothing_beyond_its_variables(source: str) -> None:
    assert "The template 'greet', line 1" in fault(source, x=[])


@pytest.mark.parametrize(
    "source",
    [
        "{{ range(10000000) | list }}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{{ 'a' * 999999999 }}",
        "{{ 999999999 * [0] }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ 'a'.ljust(999999999) }}",
        "{{ 'a' | center(999999999) }}",
        "{{ [1] | batch(999999999, 0) | list }}",
        "{{ lipsum(999999) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for a in x %}{% for b in x %}{{ text }}{% endfor %}{% endfor %}",
    ],
)
def test_a_template_that_would_eat_the_machine_is_refused(source: str) -> None:
    assert fault(source, x=[0] * 100, text="t" * 1000).startswith("The template 'greet'")


def test_an_output_of_a_few_megabytes_is_refused() -> None:
    assert "longer than" in fault("{{ a }}{{ a }}", a="x" * 3_000_000)


def test_json_for_a_model_is_not_escaped_for_html() -> None:
    assert render("{{ x | tojson }}", {"x": {"a": "<é>"}}, name="t") == '{"a": "<é>"}'
    assert "the variable 'x' is not given" in fault("{{ x | tojson }}")


def test_ordinary_templates_are_not_hindered() -> None:
    source = (
        "{{ 'ab' * 3 }} {{ 6 * 7 }} {{ 2 ** 10 }} {{ 7 % 4 }} {{ range(3) | join }} {{ 'a\nb' | indent(2) }}"
    )
    assert render(source, {}, name="t") == "ababab 42 1024 3 012 a\n  b"
