"""Servers that run as our child processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace

import pytest
import structlog
from mcp_world import QUICK, script

from trustgraph_flow.agent.mcp_tool import Connection, McpFault, read_result
from trustgraph_flow.agent.mcp_tool.guard import ChildGuard
from trustgraph_flow.agent.mcp_tool.stdio import Command
from trustgraph_flow.agent.mcp_tool.target import Target


async def said(connection, tool="t", **arguments):
    return read_result(await connection.call(tool, arguments)).text


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def gone(pid: int) -> None:
    """Waits for the end of a process that is not our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, ended.set)
    try:
        async with asyncio.timeout(10):
            await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


async def test_a_real_server_that_others_wrote_is_found_beside_us_and_called(connect):
    target = Target(workspace="default", label="time", command=Command(argv=("mcp-server-time",)))
    connection = connect(target)
    answer = read_result(await connection.call("get_current_time", {"timezone": "Asia/Tokyo"}))
    assert answer.object["timezone"] == "Asia/Tokyo"
    assert not answer.is_error
    wrong = read_result(await connection.call("get_current_time", {"timezone": "Moon/Crater"}))
    assert wrong.fault == "tool-error"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_eras_of_the_protocol_are_spoken(connect, mode):
    connection = connect(replace(script("sdk_server"), mode=mode))
    assert read_result(await connection.call("add", {"a": 2, "b": 3})).text == "5"


async def test_an_older_server_that_ends_on_a_question_it_does_not_know_is_spoken_to_the_old_way(connect):
    connection = connect(script("raw_stdio", "fussy"))
    assert await said(connection, n=1) == '{"n": 1}'
    assert await said(connection, n=2) == '{"n": 2}'


async def test_calls_share_one_process(connect):
    connection = connect(script("raw_stdio", "pid"))
    assert len({await said(connection) for _ in range(3)}) == 1


async def test_an_empty_argument_object_is_sent_as_one(connect):
    assert await said(connect(script("raw_stdio", "plain"))) == "{}"


async def test_null_inside_the_arguments_arrives(connect):
    assert json.loads(await said(connect(script("raw_stdio", "plain")), a=None, b={"c": None})) == {
        "a": None,
        "b": {"c": None},
    }


async def test_what_is_not_json_rpc_on_stdout_is_skipped_with_one_warning_and_stderr_is_drained(connect):
    connection = connect(script("raw_stdio", "junk"))
    with structlog.testing.capture_logs() as logs:
        assert await said(connection, a=1) == '{"a": 1}'
        assert await said(connection, a=2) == '{"a": 2}'
    assert len([entry for entry in logs if "not JSON-RPC" in entry["event"]]) == 1


async def test_half_a_character_and_invalid_bytes_in_a_result_are_replaced(connect):
    text = await said(connect(script("raw_stdio", "half-character")))
    assert text.startswith("half ")
    assert text.endswith("\N{REPLACEMENT CHARACTER}")


async def test_requests_of_the_server_are_refused_at_once_and_a_ping_is_answered(connect):
    answers = json.loads(await said(connect(script("raw_stdio", "ask"))))
    assert answers == {"s0": -32601, "s1": -32601, "s2": -32601, "s3": "ok", "s4": -32601}


async def test_a_child_gets_path_home_lang_and_its_own_variables_only(connect, monkeypatch):
    monkeypatch.setenv("OUR_SECRET", "do-not-pass")
    monkeypatch.setenv("LANG", "C.UTF-8")
    got = json.loads(await said(connect(script("raw_stdio", "environment", env={"OWN": "1"}))))
    got.pop("LC_CTYPE", None)  # Python's own, made up by the child
    assert set(got) == {"PATH", "HOME", "LANG", "OWN"}
    assert got["PATH"].split(os.pathsep)[0] == os.path.dirname(sys.executable)


async def test_a_program_that_is_not_there_is_a_fault_at_once(connect):
    target = Target(workspace="default", label="lost", command=Command(argv=("no-such-program-here",)))
    with pytest.raises(McpFault, match="No such file") as caught:
        await connect(target).call("t", {})
    assert caught.value.kind == "not-reached"


async def test_a_program_that_ends_at_start_is_a_fault_with_its_last_words(connect):
    with pytest.raises(McpFault, match=r"status 1 \(cannot read the configuration\)") as caught:
        await connect(script("raw_stdio", "exit-at-start")).call("t", {})
    assert caught.value.kind == "not-reached"


async def test_a_program_that_never_answers_the_handshake_is_given_up(connect):
    connection = connect(script("raw_stdio", "mute"), replace(QUICK, connect=0.3))
    with pytest.raises(McpFault, match="handshake") as caught:
        await connection.call("t", {})
    assert caught.value.kind == "not-reached"


async def test_a_failed_start_is_not_repeated_by_every_call(connect):
    limits = replace(QUICK, reconnect_first=60.0, reconnect_last=60.0)
    connection = connect(script("raw_stdio", "exit-at-start"), limits)
    for _ in range(3):
        with pytest.raises(McpFault) as caught:
            await connection.call("t", {})
        assert caught.value.kind == "not-reached"
    assert connection._failures == 1


async def test_a_hanging_call_ends_at_its_deadline_and_the_others_go_on(connect):
    connection = connect(script("sdk_server"))
    await connection.catalogue()
    hanging = asyncio.create_task(connection.call("hang", {}, seconds=1.0))
    assert await said(connection, "add", a=1) == "2"
    with pytest.raises(McpFault) as caught:
        await hanging
    assert caught.value.kind == "timed-out"
    assert "check before trying again" in caught.value.message
    assert await said(connection, "add", a=2) == "3"


async def test_a_server_that_is_killed_in_mid_call_leaves_an_unknown_outcome_and_is_started_again(
    connect, tmp_path
):
    count = tmp_path / "count"
    connection = connect(script("raw_stdio", "die", env={"COUNT": str(count)}))
    for calls in (1, 2):
        with pytest.raises(McpFault) as caught:
            await connection.call("t", {})
        assert caught.value.kind == "outcome-unknown"
        assert "outcome unknown, check before trying again" in caught.value.message
        assert count.read_text() == "x" * calls


async def test_a_child_that_was_killed_while_idle_is_started_again_for_the_next_call(connect):
    connection = connect(script("raw_stdio", "pid"))
    first = int(await said(connection))
    owner = connection._link.owner
    os.kill(first, signal.SIGKILL)
    await asyncio.wait([owner])
    assert int(await said(connection)) != first


async def test_a_child_that_answers_no_call_at_all_is_replaced(connect, tmp_path):
    connection = connect(script("raw_stdio", "deaf"), replace(QUICK, call=0.1))
    await connection.catalogue()
    owners = set()
    for _ in range(4):
        with pytest.raises(McpFault):
            await connection.call("t", {})
        owners.add(connection._link.owner)
    assert len(owners) == 2


async def test_a_child_and_its_children_are_gone_when_we_close(connect):
    connection = connect(script("raw_stdio", "family"))
    grandchild = int(await said(connection))
    assert alive(grandchild)
    await connection.close()
    await gone(grandchild)


async def test_a_child_that_ignores_the_end_of_its_input_is_killed(connect, tmp_path):
    arrived = tmp_path / "arrived"
    connection = connect(script("raw_stdio", "deaf", env={"ARRIVED": str(arrived)}))
    with pytest.raises(McpFault):
        await connection.call("t", {}, seconds=2.0)
    assert arrived.exists()
    owner = connection._link.owner
    await connection.close()
    assert owner.done()


async def test_children_die_with_a_process_of_ours_that_is_killed(tmp_path):
    holder = """
import asyncio, sys
sys.path[:0] = [sys.argv[1]]
from mcp_world import QUICK, script
from trustgraph_flow.agent.mcp_tool import Connection, read_result
async def main():
    connection = Connection(script("raw_stdio", "family"), QUICK)
    raw = await connection.call("t", {})
    print(raw["content"][0]["text"], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    here = os.path.dirname(__file__)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", holder, here, stdout=asyncio.subprocess.PIPE
    )
    grandchild = int(await process.stdout.readline())
    assert alive(grandchild)
    process.kill()
    await process.wait()
    await gone(grandchild)


async def test_connections_close_in_any_order_and_from_any_task():
    guard = ChildGuard()
    first = Connection(script("raw_stdio", "pid"), QUICK, guard)
    second = Connection(script("raw_stdio", "pid"), QUICK, guard)
    pids = [
        int(read_result(raw).text)
        for raw in await asyncio.gather(
            asyncio.create_task(first.call("t", {})), asyncio.create_task(second.call("t", {}))
        )
    ]
    await asyncio.create_task(first.close())
    assert [alive(pid) for pid in pids] == [False, True]
    await asyncio.create_task(second.close())
    assert not alive(pids[1])
    await guard.close()


async def test_giving_up_a_connection_in_the_middle_of_the_handshake_leaves_nothing(connect):
    connection = connect(script("raw_stdio", "mute"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connection.call("t", {}), 0.2)
    owner = connection._link.owner
    await connection.close()
    assert owner.done()


async def test_an_idle_connection_is_closed_and_opened_again(connect):
    connection = connect(script("raw_stdio", "pid"), replace(QUICK, idle=0.05))
    first = await said(connection)
    await asyncio.wait([connection._link.owner])
    assert not alive(int(first))
    assert await said(connection) != first


async def test_many_opens_and_closes_leave_no_process_and_no_task():
    before = asyncio.all_tasks()
    guard = ChildGuard()
    pids = []
    for _ in range(5):
        connection = Connection(script("raw_stdio", "pid"), QUICK, guard)
        pids.append(int(read_result(await connection.call("t", {})).text))
        await connection.close()
    await guard.close()
    assert not any(alive(pid) for pid in pids)
    assert asyncio.all_tasks() == before
