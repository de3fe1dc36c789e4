"""Instructions that an operation costs the server, counted by callgrind: unlike times they are the same on a busy machine.

    python main.py --segno target/release/segno --harness target/release/segno-harness [--workloads one-activity,script] [--rounds 2] [--keep DIR]

Prints one line of JSON for each round and workload: thousand instructions, commits and syncs for each operation. How many commits share a
sync depends on the machine, and each sync has its cost: only counts at about equal syncs compare. Needs valgrind. `--keep` keeps the
profiles, for callgrind_annotate; a binary with symbols (`CARGO_PROFILE_RELEASE_STRIP=none`) has names in them.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

AT_A_TIME = "32"
FIRST, COUNTED = 300, 1000
READY_MAX = 60.0


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def metric(http_port: int, name: str) -> float:
    """The value of a counter of the server."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics", timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[ {{]", line))


def count(arguments: argparse.Namespace, workload: str, directory: Path) -> dict[str, object]:
    """Counts one workload on a fresh server."""
    port, http_port = free_port(), free_port()
    profile = directory / f"{workload}.callgrind"
    serve = [arguments.segno, "serve", "--data-dir", str(directory / workload), "--port", str(port), "--http-port", str(http_port)]
    tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}"]
    with (directory / f"{workload}.log").open("wb") as log:
        server = subprocess.Popen([*tool, *serve], stdout=log, stderr=log)
    try:
        begun = time.monotonic()
        while True:
            try:
                metric(http_port, "segno_syncs_total")
                break
            except OSError:
                assert time.monotonic() - begun < READY_MAX and server.poll() is None, "the server did not start"
                time.sleep(0.2)

        def load(operations: int) -> None:
            command = [arguments.harness, "load", "--workload", workload, "--port", str(port), "--count", str(operations)]
            subprocess.run([*command, "--concurrency", AT_A_TIME], check=True, stdout=subprocess.DEVNULL)

        def control(option: str) -> None:
            subprocess.run(["callgrind_control", option, str(server.pid)], check=True, stdout=subprocess.DEVNULL)

        load(FIRST)
        before = [metric(http_port, name) for name in ("segno_commits_total", "segno_syncs_total")]
        control("--zero")
        load(COUNTED)
        control("--dump")
        after = [metric(http_port, name) for name in ("segno_commits_total", "segno_syncs_total")]
    finally:
        server.terminate()
        server.wait()
    dumped = sorted(directory.glob(f"{workload}.callgrind.*"))[0].read_text()
    found = re.search(r"^(?:summary|totals): (\d+)", dumped, re.MULTILINE)
    assert found, "the profile has no sum"
    commits, syncs = ((now - then) / COUNTED for now, then in zip(after, before))
    return {
        "workload": workload,
        "thousand instructions": round(int(found[1]) / COUNTED / 1000, 1),
        "commits": round(commits, 2),
        "syncs": round(syncs, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--segno", required=True)
    parser.add_argument("--harness", required=True)
    parser.add_argument("--workloads", default="one-activity,script")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    for _ in range(arguments.rounds):
        for workload in arguments.workloads.split(","):
            directory = Path(tempfile.mkdtemp())
            try:
                print(json.dumps(count(arguments, workload, directory)), flush=True)
                if arguments.keep:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    for profile in directory.glob("*.callgrind*"):
                        shutil.copy(profile, arguments.keep)
            finally:
                shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
