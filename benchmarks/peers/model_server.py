"""A model server without thinking time: OpenAI chat completions, native tool calls and text prompts alike.

Which step a run has reached is read from the sums that its prompt holds, so nothing is kept between requests.
A request for a JSON schema is refused, as many servers do. ``python model_server.py PORT``
"""

from __future__ import annotations

import json
import sys
from itertools import count

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from work import ADD, FIRST, STEPS, SUMS

NUMBER = count(1)
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
ANSWER = f"The total is {sum(SUMS)}"


def seen(messages: list[dict]) -> int:
    """How many of the sums stand in the conversation."""
    texts = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            texts.append(content)
        else:
            texts.extend(part.get("text", "") for part in content or [])
    whole = "\n".join(texts)
    return sum(str(value) in whole for value in SUMS)


def native(tools: list[dict], done: int) -> tuple[dict, str]:
    names = [tool["function"]["name"] for tool in tools]
    if done < STEPS:
        name = next(name for name in names if name.endswith("add"))
        arguments = {"a": FIRST + done, "b": ADD}
    elif "final_answer" in names:
        name, arguments = "final_answer", {"answer": ANSWER}
    else:
        return {"role": "assistant", "content": ANSWER}, "stop"
    call = {
        "id": f"call{next(NUMBER)}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


def text(done: int) -> tuple[dict, str]:
    if done < STEPS:
        arguments = json.dumps({"a": FIRST + done, "b": ADD})
        content = f"Thought: The next sum is needed.\nAction: add\nArgs: {arguments}"
    else:
        content = f"Thought: All sums are here.\nFinal Answer: {ANSWER}"
    return {"role": "assistant", "content": content}, "stop"


async def chat(request: Request) -> Response:
    body = orjson.loads(await request.body())
    if (body.get("response_format") or {}).get("type") == "json_schema":
        error = {"message": "response_format is not supported here", "type": "invalid_request_error"}
        return Response(orjson.dumps({"error": error}), 400, media_type="application/json")
    done = seen(body["messages"])
    message, reason = native(body["tools"], done) if body.get("tools") else text(done)
    head = {"id": f"chat{next(NUMBER)}", "created": 1, "model": body.get("model", "none")}
    if not body.get("stream"):
        choice = {"index": 0, "finish_reason": reason, "message": message}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": USAGE}
        return Response(orjson.dumps(whole), media_type="application/json")
    if message.get("tool_calls"):
        message = {**message, "tool_calls": [{"index": 0, **message["tool_calls"][0]}]}
    parts = [
        {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {"choices": [], "usage": USAGE},
    ]
    lines = [
        b"data: " + orjson.dumps({**head, "object": "chat.completion.chunk", **part}) + b"\n\n"
        for part in parts
    ]
    return Response(b"".join([*lines, b"data: [DONE]\n\n"]), media_type="text/event-stream")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
