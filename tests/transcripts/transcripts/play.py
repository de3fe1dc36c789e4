"""Plays scenarios concurrently and hands back their transcripts."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

from .harness import Server, Session
from .scenarios import Scenario

Transcript = list[dict[str, Any]]
T = TypeVar("T")
STOPPED = "(scenario stopped)"


def play_one(server: Server, scenario: Scenario) -> Transcript:
    """Plays one scenario; what stops it early becomes its last step."""
    session = Session(server)
    try:
        scenario(session)
    except Exception as error:  # noqa: BLE001 - what went wrong belongs into the transcript
        where = traceback.extract_tb(error.__traceback__)
        line = next((f for f in reversed(where) if "scenarios" in f.filename), where[-1])
        reason = f"{type(error).__name__}: {error}"
        session.steps.append({"call": STOPPED, "reason": reason, "at": line.line})
    return session.steps


def play_stable(server: Server, scenario: Scenario, tries: int = 6) -> Transcript:
    """Plays until two playings in a row agree and none stopped early; otherwise the last step says so."""
    last: Transcript | None = None
    for _ in range(tries):
        transcript = play_one(server, scenario)
        if transcript == last and not stopped(transcript):
            return transcript
        last = transcript
    return [*transcript, {"call": STOPPED, "reason": "no two playings in a row agree"}]


def play_towards(server: Server, scenario: Scenario, expected: Transcript, playings: int) -> tuple[Transcript, int]:
    """Plays until the transcript is as expected, at most so many times; also tells how many were needed."""
    for count in range(1, playings + 1):
        transcript = play_one(server, scenario)
        if transcript == expected:
            break
    return transcript, count


def in_parallel(jobs: dict[str, Callable[[], T]], workers: int) -> Iterator[tuple[str, T]]:
    """Runs the named jobs and yields each result as it comes."""
    with ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(job): name for name, job in jobs.items()}
        for done in as_completed(pending):
            yield pending[done], done.result()


def stopped(transcript: Transcript) -> bool:
    """Whether the scenario ended early."""
    return bool(transcript) and transcript[-1]["call"] == STOPPED
