"""A stdio server written by hand. The first argument is what it does wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

MODE = sys.argv[1]
out = sys.stdout.buffer


def say(message: dict) -> None:
    out.write(json.dumps(message).encode() + b"\n")
    out.flush()


def junk() -> None:
    if MODE == "junk":
        out.write(b"Demo server 1.2 starting...\n")
        out.write(b'{"level":"info","msg":"this is JSON but not JSON-RPC"}\n\n')
        out.write(b"\xff\xfe invalid \xe2\x28\xa1\n" + b"x" * 200_000 + b"\n[1, 2]\n")
        out.flush()
        for _ in range(2000):
            sys.stderr.write("chatter " * 20 + "\n")


def result_of(message: dict) -> dict | None:
    method, params = message["method"], message.get("params") or {}
    if method == "server/discover" and MODE == "fussy":
        sys.exit("expected initialize")
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations()}]}
    if method == "tools/call":
        return call(message, params)
    return None


def annotations() -> dict:
    return {"readOnlyHint": True} if MODE == "read-only" else {}


def call(message: dict, params: dict) -> dict | None:
    junk()
    if MODE == "half-character":
        out.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":' % message["id"])
        out.write(b'[{"type":"text","text":"half \\ud83d and \xff"}]}}\n')
        out.flush()
        raise StopIteration
    if MODE == "ask":
        for place, method in enumerate(
            ["elicitation/create", "sampling/createMessage", "roots/list", "ping", "made/up"]
        ):
            say({"jsonrpc": "2.0", "id": f"s{place}", "method": method, "params": {}})
        answers = [json.loads(sys.stdin.readline()) for _ in range(5)]
        return text(json.dumps({a["id"]: a.get("error", {}).get("code", "ok") for a in answers}))
    if MODE == "pid":
        return text(str(os.getpid()))
    if MODE == "environment":
        return text(json.dumps(dict(os.environ)))
    if MODE == "family":
        child = subprocess.Popen(["sleep", "1000"])
        return text(str(child.pid))
    if MODE == "die":
        with open(os.environ["COUNT"], "a") as count:
            count.write("x")
        os.kill(os.getpid(), 9)
    if MODE == "deaf" or params["arguments"].get("hang"):
        if "ARRIVED" in os.environ:
            open(os.environ["ARRIVED"], "w").close()
        while True:
            time.sleep(1000)
    return text(json.dumps(message["params"].get("arguments", "no arguments")))


def text(words: str) -> dict:
    return {"content": [{"type": "text", "text": words}]}


if MODE == "exit-at-start":
    sys.exit("cannot read the configuration")
if MODE == "mute":
    while True:
        time.sleep(1000)

junk()
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    try:
        result = result_of(message)
    except StopIteration:
        continue
    if result is None:
        error = {"code": -32601, "message": "no such method"}
        say({"jsonrpc": "2.0", "id": message["id"], "error": error})
    else:
        say({"jsonrpc": "2.0", "id": message["id"], "result": result})
