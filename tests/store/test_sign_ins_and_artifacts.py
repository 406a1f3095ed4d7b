"""Tokens of sign-ins, and what tools returned that is no text."""

from __future__ import annotations

from trustgraph_flow.store import Artifact, SignIn, Store


async def test_a_sign_in_outlives_the_process_and_belongs_to_one_workspace(tmp_path):
    url = f"sqlite:///{tmp_path}/tg.db"
    async with await Store.open(url) as store:
        assert await store.sign_ins.get("one", "https://a") == SignIn()
        await store.sign_ins.put_client("one", "https://a", {"client_id": "c"})
        await store.sign_ins.put_tokens("one", "https://a", {"access_token": "t"}, 12.5)
        await store.sign_ins.put_tokens("one", "https://a", {"access_token": "u"}, None)
    async with await Store.open(url) as store:
        assert await store.sign_ins.get("one", "https://a") == SignIn(
            {"access_token": "u"}, None, {"client_id": "c"}
        )
        assert await store.sign_ins.get("two", "https://a") == SignIn()
        await store.sign_ins.forget("one", "https://a")
        assert await store.sign_ins.get("one", "https://a") == SignIn()


def test_no_repr_holds_a_token():
    assert "secret" not in repr(SignIn({"access_token": "secret"}, None, {"client_secret": "secret"}))


async def test_an_artifact_is_read_whole_or_in_pieces_by_its_own_workspace(tmp_path):
    async with await Store.open(f"sqlite:///{tmp_path}/tg.db") as store:
        data = bytes(range(256)) * 4
        one = Artifact.of("a1", data, mime_type="image/png", name="part-1.png", run_id="r", call_id="c")
        await store.artifacts.put("one", [one, Artifact.of("a2", b"", mime_type="text/plain", name="empty")])
        assert await store.artifacts.get("one", "a1") == one
        piece = await store.artifacts.get("one", "a1", offset=250, length=10)
        assert piece is not None
        assert (piece.data, piece.size) == (data[250:260], 1024)
        beyond = await store.artifacts.get("one", "a1", offset=2000, length=10)
        assert beyond is not None
        assert beyond.data == b""
        empty = await store.artifacts.get("one", "a2")
        assert empty is not None
        assert empty.data == b""
        assert await store.artifacts.get("two", "a1") is None
        assert await store.artifacts.get("one", "nothing") is None
