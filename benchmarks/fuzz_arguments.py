"""The long run of the arguments fuzz tests: the same properties, many more inputs, other inputs each time.

    python benchmarks/fuzz_arguments.py [EXAMPLES]

EXAMPLES (25,000) inputs go to each of the four properties. A failure prints the smallest input that shows it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent / "tests" / "arguments" / "test_arguments_fuzz.py"


def main() -> int:
    examples = int(sys.argv[1]) if len(sys.argv) > 1 else 25_000
    os.environ["FUZZ_EXAMPLES"] = str(examples)
    started = time.monotonic()
    outcome = pytest.main(["-q", "-p", "no:cacheprovider", "--durations=0", str(TESTS)])
    print(f"{4 * examples:,} inputs in {time.monotonic() - started:.0f} s")
    return int(outcome)


if __name__ == "__main__":
    sys.exit(main())
