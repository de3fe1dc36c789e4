"""Every recorded transcript of Temporal, against a server on PostgreSQL. (The step `transcripts` has the default store.)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import segno_binary
from nodes import Node, Postgres


@pytest.mark.timeout(900)
def test_every_transcript_on_postgresql(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a server of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    postgres = Postgres()
    # A busy machine must not look like a node that is gone.
    node = Node(postgres, "n1", tmp_path, lease=60)
    try:
        node.start()
        place = Path(__file__).resolve().parent.parent / "transcripts"
        command = [sys.executable, "-m", "transcripts", "check", "--address", node.address]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        wrong = [line for line in lines if not line.endswith(": ok")]
        assert done.returncode == 0, "\n".join(wrong[-200:]) + done.stderr
        assert lines[-1].endswith(" passed, 0 failed") and int(lines[-1].split()[0]) > 900, lines[-1]
    finally:
        node.kill()
        postgres.remove()
