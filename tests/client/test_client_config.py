"""Config through the client: items, tools, MCP tools, prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from behind_gateway import Items

from trustgraph_flow.client import AsyncClient
from trustgraph_flow.gateway import Gateway
from trustgraph_flow.schema.errors import BadRequest, NotFound
from trustgraph_flow.schema.items import McpItem, McpServerItem, PromptItem, ToolItem

BALANCE = {"name": "account_id", "type": "string", "description": "Account: which one", "default": None}


@pytest_asyncio.fixture
async def client(gateway: Gateway, items: Items) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(gateway.url + "/", workspace="north") as client:
        yield client


async def test_items_are_written_read_listed_and_deleted(client: AsyncClient) -> None:
    assert await client.put_items([("x", "a", "1"), ("x", "b", "2"), ("y", "c", "3")]) == 2
    assert await client.get_item("x", "a") == "1"
    assert await client.get_item("x", "none") is None
    assert await client.values("x") == {"a": "1", "b": "2"}
    assert await client.list_keys("x") == ["a", "b"]
    contents = await client.all()
    assert (contents.version, contents.items) == (2, {"x": {"a": "1", "b": "2"}, "y": {"c": "3"}})
    assert await client.delete_item("x", "a") == 3
    assert await client.get_items([("x", "a"), ("x", "b")]) != []
    assert await client.list_keys("x") == ["b"]


async def test_a_client_works_in_its_own_workspace(
    client: AsyncClient, items: Items, gateway: Gateway
) -> None:
    await client.put_item("x", "a", "1")
    assert list(items.kept) == [("north", "x", "a")]
    async with AsyncClient(gateway.url) as other:
        assert await other.get_item("x", "a") is None


async def test_deleting_what_is_not_there_says_so(client: AsyncClient) -> None:
    with pytest.raises(NotFound, match=r"'north' has no tool item 'x'"):
        await client.delete_tool("x")


async def test_a_tool_comes_back_as_it_was_set(client: AsyncClient, items: Items) -> None:
    tool = ToolItem(
        type="mcp-tool", name="Bank balance", mcp_tool="balance", arguments=[BALANCE], state=None, group=[]
    )
    await client.set_tool("balance", tool)
    assert items.kept["north", "tool", "balance"] == (
        '{"type": "mcp-tool", "name": "Bank balance", "mcp-tool": "balance", "arguments": '
        '[{"name": "account_id", "type": "string", "description": "Account: which one", "default": null}], '
        '"group": []}'
    )
    (stored,) = await client.tools()
    assert (stored.key, stored.fault) == ("balance", None)
    assert stored.item is not None
    assert stored.item.arguments == [BALANCE]


@pytest.mark.parametrize(("arguments", "text"), [({}, ""), ({"arguments": []}, ', "arguments": []')])
async def test_no_arguments_and_an_empty_list_stay_different(
    client: AsyncClient, items: Items, arguments: dict[str, object], text: str
) -> None:
    await client.set_tool("t", ToolItem.model_validate({"type": "prompt", "name": "t", **arguments}))
    assert items.kept["north", "tool", "t"] == f'{{"type": "prompt", "name": "t"{text}}}'


async def test_an_item_that_can_t_be_read_is_shown_beside_those_that_can(
    client: AsyncClient, items: Items
) -> None:
    items.kept["north", "tool", "a"] = '{"type": "mcp-tool",'
    items.kept["north", "tool", "b"] = '{"type": "mcp-tool"}'
    items.kept["north", "tool", "c"] = '{"type": "no-such", "name": "c", "mine": null}'
    a, b, c = await client.tools()
    assert a.fault is not None
    assert "JSON" in a.fault
    assert b.fault == "name: Field required"
    assert c.item is not None
    assert c.item.model_extra == {"mine": None}


async def test_mcp_tools_and_servers_are_set_shown_masked_and_deleted(
    client: AsyncClient, items: Items
) -> None:
    await client.set_mcp_tool("t", McpItem(url="http://127.0.0.1:9/mcp", auth_token="tok-1"))
    await client.set_mcp_server("s", McpServerItem(command="python", env={"A": "tok-2"}))
    (tool,), (server,) = await client.mcp_tools(), await client.mcp_servers()
    assert "tok-" not in tool.value + server.value
    assert tool.item is not None
    assert server.item is not None
    await client.set_mcp_tool("t", tool.item.model_copy(update={"timeout": 3}))
    assert '"auth-token": "tok-1"' in items.kept["north", "mcp", "t"]
    assert '"timeout": 3' in items.kept["north", "mcp", "t"]
    await client.delete_mcp_tool("t")
    await client.delete_mcp_server("s")
    assert items.kept == {}


async def test_prompts_are_known_by_their_template_id(client: AsyncClient, items: Items) -> None:
    await client.set_prompt("greet", PromptItem(id="greet", prompt="Hello {{name}}"))
    assert ("north", "prompt", "template.greet") in items.kept
    assert await client.system_prompt() is None
    await client.set_system_prompt("Be\nkind")
    assert items.kept["north", "prompt", "system"] == '"Be\\nkind"'
    assert await client.system_prompt() == "Be\nkind"
    items.kept["north", "prompt", "system"] = "bare text"
    assert await client.system_prompt() == "bare text"
    (prompt,) = await client.prompts()
    assert prompt.key == "greet"
    await client.delete_prompt("greet")
    assert await client.prompts() == []


async def test_what_the_gateway_finds_wrong_is_raised_with_its_place(client: AsyncClient) -> None:
    with pytest.raises(BadRequest, match=r"values\.0\.value"):
        await client.put_item("tool", "x", 1)  # type: ignore[arg-type]
