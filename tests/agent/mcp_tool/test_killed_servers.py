"""Servers that die at random moments: a few rounds of what ``benchmarks/mcp_soak.py`` does at length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KILLS = Path(__file__).parents[3] / "benchmarks" / "mcp_http_kills.py"


def test_calls_to_http_servers_that_die_end_in_time_with_a_fitting_outcome_and_none_runs_twice():
    done = subprocess.run(
        [sys.executable, KILLS, "--rounds", "3"], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count('"fine": true') == 4
