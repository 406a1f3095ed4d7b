"""Reads random replies in random cuts; ends with exit code 1 at the first that breaks a rule.

    python benchmarks/fuzz_parser.py              # 100,000 replies, or 10 minutes if that is earlier
    python benchmarks/fuzz_parser.py --short      # 2,000 replies
    python benchmarks/fuzz_parser.py --speed      # replies of 1 MB, whole and in chunks of 4 characters

The rules: no exception; whole, character by character and in random cuts the same events and the same step;
the events join to thought and answer; nothing changes once the parser has said that it is done.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "agent" / "react"))

from parser_replies import FRAGMENTS, REPLIES, check

from trustgraph_flow.agent.react.parser import Parser

MEGABYTE = 1_000_000
WORDS = "The quick brown fox jumps over the lazy dog, and it is happy. "
LINES = "- a line of **text**, not long\n"
SHAPES = {
    "answer, prose": ("Thought: x\nFinal Answer: ", WORDS, ""),
    "answer, lines": ("Thought: x\nFinal Answer: ", LINES, ""),
    "thought, prose": ("Thought: ", WORDS, ""),
    "thought, lines": ("Thought: ", LINES, ""),
    "thought, 2-character lines": ("Thought: ", "a\n", ""),
    "think block": ("<think>", WORDS, ""),
    "arguments, one string": ('Action: f\nArgs: {"a": "', WORDS, '"}'),
    "arguments, escapes": ('Action: f\nArgs: {"a": "', "a line\\n", '"}'),
    "arguments, objects": ('Action: f\nArgs: {"a": [', '{"key": "value", "n": 12},', "1]}"),
    "arguments, Python": ("Action: f\nArgs: {'a': [", "{'key': 'value', 'n': True},", "]}"),
    "arguments, brackets": ('Action: f\nArgs: {"a": [', "[[]],", "1]}"),
    "arguments, too deep": ('Action: f\nArgs: {"a": ', "[", ""),
    "arguments, not closed": ('Action: f\nArgs: {"a": "', WORDS, ""),
    "arguments, plain text": ("Action: f\nArgs: ", WORDS, ""),
    "JSON answer": ('{"thought": "x", "final_answer": "', WORDS, '"}'),
    "JSON answer, escapes": ('{"final_answer": "', "a line\\n", '"}'),
    "invented rest": ("Action: f\nArgs: {}\nObservation: ", LINES, ""),
    "prose without a step": ("", LINES, ""),
    "only space": ("", " ", ""),
    "only <": ("Final Answer: ", "<", ""),
}


def random_text(rng: random.Random) -> str:
    """Fragments in random order, or a reply in which some of them replace a part."""
    fragments = "".join(rng.choices(FRAGMENTS, k=rng.randint(1, 24)))
    if rng.random() < 0.5:
        return fragments
    reply = rng.choice(list(REPLIES.values()))
    start = rng.randint(0, len(reply))
    return reply[:start] + fragments[: rng.randint(0, 30)] + reply[rng.randint(start, len(reply)) :]


def random_cut(rng: random.Random, text: str) -> list[str]:
    chunks = []
    while text:
        size = rng.randint(1, 9)
        chunks.append(text[:size])
        text = text[size:]
    return chunks


def fuzz(count: int, seconds: float, seed: int) -> bool:
    """Whether every reply kept the rules; prints what was read."""
    rng = random.Random(seed)
    kinds: Counter[str] = Counter()
    start = time.monotonic()
    characters = 0
    while sum(kinds.values()) < count and time.monotonic() - start < seconds:
        text = random_text(rng)
        characters += len(text)
        try:
            reply = check(text, list(text), random_cut(rng, text))
        except Exception as error:
            print(f"seed {seed}, reply {sum(kinds.values())}: {text!r}\n{type(error).__name__}: {error}")
            return False
        kinds[getattr(reply, "reason", type(reply).__name__)] += 1
    spent = time.monotonic() - start
    print(f"{sum(kinds.values()):,} replies, {characters:,} characters, each read 4 times, in {spent:.0f} s")
    for kind, number in kinds.most_common():
        print(f"  {number:8,}  {kind}")
    return True


def speed() -> None:
    print(f"{'1 MB of':30}{'whole':>10}{'in fours':>10}   seconds of this process")
    for name, (before, unit, after) in SHAPES.items():
        text = before + unit * ((MEGABYTE - len(before) - len(after)) // len(unit)) + after
        spent = []
        for size in (len(text), 4):
            chunks = [text[start : start + size] for start in range(0, len(text), size)]
            parser = Parser()
            start = time.process_time()
            for chunk in chunks:
                parser.feed(chunk)
            parser.finish()
            spent.append(time.process_time() - start)
        print(f"{name:30}{spent[0]:10.3f}{spent[1]:10.3f}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--short", action="store_true", help="2,000 replies")
    options.add_argument("--speed", action="store_true", help="time replies of 1 MB instead")
    options.add_argument("--count", type=int, default=100_000)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    if given.speed:
        speed()
        return 0
    return 0 if fuzz(2_000 if given.short else given.count, given.seconds, given.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
