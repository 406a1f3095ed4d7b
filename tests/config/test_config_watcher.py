import asyncio
from typing import Any

import pytest
import structlog
from config_helpers import Client, Seen

from trustgraph_flow.bus import Bus, BusSettings
from trustgraph_flow.config import ConfigService, ConfigView, ConfigWatcher
from trustgraph_flow.schema.config import ConfigNotice
from trustgraph_flow.store import ConfigChange, Store


async def test_start_hands_over_what_is_there(bus: Bus, client: Client) -> None:
    await client.put(a="{}")
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    await watcher.start()
    assert seen.views == [ConfigView(1, {"default": {"mcp": {"a": "{}"}}})]
    assert watcher.version == 1
    await watcher.close()


async def test_an_empty_config_is_handed_over_too(bus: Bus, client: Client) -> None:
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    await watcher.start()
    assert seen.views == [ConfigView(0, {})]
    assert seen.views[0].of("default", "mcp") == {}
    await watcher.close()


async def test_changes_of_every_workspace_arrive_whole(bus: Bus, client: Client) -> None:
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp", "mcp-server"], seen)
    await watcher.start()
    await client.put(a="{}")
    await client.ask("put", values=[{"type": "mcp-server", "key": "m", "value": "{}"}], workspace="other")
    await client.delete("mcp", "a")
    await client.put(b="{}")
    expected = {"default": {"mcp": {"b": "{}"}}, "other": {"mcp-server": {"m": "{}"}}}
    await seen.until(lambda: seen.views[-1].items == expected)
    await watcher.close()


async def test_other_types_are_neither_fetched_nor_handed_over_but_their_versions_are_known(
    bus: Bus, client: Client
) -> None:
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    await watcher.start()
    await client.ask("put", values=[{"type": "prompt", "key": "system", "value": "s"}])
    await client.put(a="{}")
    await seen.until(lambda: seen.tools == {"a": "{}"})
    assert [view.version for view in seen.views] == [0, 2]
    await watcher.close()


async def test_a_watcher_waits_for_a_config_service_that_comes_later(bus: Bus, store: Store) -> None:
    await store.config.write([ConfigChange("default", "mcp", "a", "{}")])
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    with structlog.testing.capture_logs() as logs:
        starting = asyncio.create_task(watcher.start())
        service = ConfigService(bus, store)
        await service.start()
        await starting
    assert seen.tools == {"a": "{}"}
    assert sum(entry["log_level"] == "warning" for entry in logs) <= 1
    await watcher.close()
    await service.close()


async def test_a_lost_notice_is_made_up_by_the_poll(bus: Bus, client: Client, store: Store) -> None:
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen, poll_seconds=0.05)
    await watcher.start()
    await store.config.write([ConfigChange("default", "mcp", "a", "{}")])  # beside the service: no notice
    await seen.until(lambda: seen.tools == {"a": "{}"})
    await watcher.close()


async def test_a_lost_notice_is_made_up_when_the_next_one_shows_a_gap(
    bus: Bus, client: Client, store: Store
) -> None:
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    await watcher.start()
    await store.config.write([ConfigChange("default", "mcp", "a", "{}")])
    await client.ask("put", values=[{"type": "prompt", "key": "system", "value": "s"}])
    await seen.until(lambda: seen.tools == {"a": "{}"})
    await watcher.close()


async def test_a_burst_of_changes_is_handed_over_as_fewer_states(bus: Bus, client: Client) -> None:
    entered, release = asyncio.Event(), asyncio.Event()
    seen = Seen()

    async def slow(view: ConfigView) -> None:
        if view.version == 1:
            entered.set()
            await release.wait()
        await seen(view)

    watcher = ConfigWatcher(bus, ["mcp"], slow)
    await watcher.start()
    await client.put(t0="{}")
    await entered.wait()
    for n in range(1, 30):
        await client.put(**{f"t{n}": "{}"})
    release.set()
    await seen.until(lambda: len(seen.tools) == 30)
    assert len(seen.views) < 10
    await watcher.close()


async def test_a_change_that_can_not_be_applied_is_logged_and_does_not_stop_the_following(
    bus: Bus, client: Client
) -> None:
    seen = Seen()

    async def picky(view: ConfigView) -> None:
        if "bad" in view.of("default", "mcp"):
            raise ValueError("no such tool")
        await seen(view)

    watcher = ConfigWatcher(bus, ["mcp"], picky)
    await watcher.start()
    with structlog.testing.capture_logs() as logs:
        await client.put(bad="{}")
        await client.put(good="{}")
        await client.delete("mcp", "bad")
        await seen.until(lambda: seen.tools == {"good": "{}"})
    assert "a config change was not applied" in [entry["event"] for entry in logs]
    await watcher.close()


async def test_a_state_that_was_not_applied_is_given_again_at_the_next_look(bus: Bus, client: Client) -> None:
    seen = Seen()
    calls = 0

    async def moody(view: ConfigView) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("not now")
        await seen(view)

    watcher = ConfigWatcher(bus, ["mcp"], moody, poll_seconds=0.05)
    await watcher.start()
    await seen.until(lambda: len(seen.views) == 1)
    await watcher.close()


@pytest.mark.parametrize("junk", [{"version": "soon"}, {}, {"version": 1, "changed": 5}])
async def test_a_notice_that_can_not_be_read_is_passed_over(
    bus: Bus, client: Client, junk: dict[str, Any]
) -> None:
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    await watcher.start()
    await bus.broadcast("config", junk)
    await client.put(a="{}")
    await seen.until(lambda: seen.tools == {"a": "{}"})
    await watcher.close()


async def test_a_store_that_was_put_back_to_an_older_version_is_followed(
    bus: Bus, service: ConfigService, store: Store
) -> None:
    for n in range(3):
        await store.config.write([ConfigChange("default", "mcp", f"t{n}", "{}")])
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    await watcher.start()
    await service.close()
    async with await Store.open("sqlite://") as fresh:
        await fresh.config.write([ConfigChange("default", "mcp", "only", "{}")])
        replacement = ConfigService(bus, fresh)
        await replacement.start()
        await seen.until(lambda: seen.tools == {"only": "{}"})
        await watcher.close()
        await replacement.close()


async def test_fifty_writers_and_many_watchers_in_several_processes_end_on_the_last_version(
    bus_settings: BusSettings, client: Client
) -> None:
    buses = [await Bus(bus_settings).__aenter__() for _ in range(3)]
    seen = [Seen() for _ in range(30)]
    watchers = [ConfigWatcher(buses[n % 3], ["mcp"], each) for n, each in enumerate(seen)]
    for watcher in watchers:
        await watcher.start()
    versions = await asyncio.gather(*(client.put(**{f"t{n}": "{}"}) for n in range(50)))
    assert sorted(versions) == list(range(1, 51))
    for each in seen:
        await each.until(lambda each=each: each.views[-1].version == 50)  # type: ignore[misc]
        assert len(each.tools) == 50
        found = [view.version for view in each.views]
        assert found == sorted(found)
    await asyncio.gather(*(watcher.close() for watcher in watchers))
    await asyncio.gather(*(each.close() for each in buses))


async def test_a_change_of_very_many_items_is_announced_without_naming_them(bus: Bus, client: Client) -> None:
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    await watcher.start()
    await client.put(**{f"t{n}": "{}" for n in range(1000)})
    await seen.until(lambda: len(seen.tools) == 1000)
    await watcher.close()


async def test_a_closed_watcher_hands_over_nothing_more(bus: Bus, client: Client) -> None:
    seen = Seen()
    watcher = ConfigWatcher(bus, ["mcp"], seen)
    await watcher.start()
    await watcher.close()
    await bus.broadcast("config", ConfigNotice(version=99))
    await client.put(a="{}")
    assert len(seen.views) == 1
