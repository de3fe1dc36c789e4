"""Command line: `record` against the real Temporal, `check` any server against the recordings."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from .harness import Server
from .oracle import temporal
from .play import Transcript, in_parallel, play_stable, play_towards, stopped
from .scenarios import Scenario, load

RECORDED = Path(__file__).parent.parent / "recorded"
INTENDED = Path(__file__).parent.parent / "intended"


def as_text(transcript: Transcript) -> str:
    """The stored form of a transcript."""
    return json.dumps(transcript, indent=1, ensure_ascii=False) + "\n"


def sabotage(transcript: Transcript) -> Transcript:
    """Perturbs one observed value, to prove that a comparison can fail."""

    def flip(value: Any) -> Any:
        if isinstance(value, dict):
            for key in value:
                changed = flip(value[key])
                if changed is not None:
                    return {**value, key: changed}
        elif isinstance(value, list):
            for index, item in enumerate(value):
                changed = flip(item)
                if changed is not None:
                    return [*value[:index], changed, *value[index + 1 :]]
        elif isinstance(value, bool):
            return not value
        elif isinstance(value, (int, float)):
            return value + 1
        elif isinstance(value, str):
            return value + " (sabotaged)"
        return None

    for index in range(len(transcript) - 1, -1, -1):
        step = transcript[index]
        for part in ("response", "error"):
            changed = flip(step.get(part))
            if changed is not None:
                return [*transcript[:index], {**step, part: changed}, *transcript[index + 1 :]]
    first, *rest = transcript
    return [{**first, "response": "sabotaged"}, *rest]


def choose(args: argparse.Namespace) -> dict[str, Scenario]:
    """The scenarios whose name is given or starts with `given.`; all if none are given."""
    scenarios = load(args.switched_on)
    names = args.names
    if not names:
        return scenarios
    chosen = {k: v for k, v in scenarios.items() if any(k == n or k.startswith(n + ".") for n in names)}
    if not chosen:
        raise SystemExit(f"no scenario matches {names}")
    return chosen


def record(args: argparse.Namespace) -> int:
    """Plays scenarios against the real server and stores them."""
    RECORDED.mkdir(exist_ok=True)
    bad = []
    with contextlib.nullcontext(args.address) if args.address else temporal(args.switched_on) as address:
        server = Server(address)
        server.wait_ready()
        jobs = {name: partial(play_stable, server, s) for name, s in choose(args).items()}
        for name, transcript in in_parallel(jobs, args.workers):
            if stopped(transcript):
                bad.append(name)
                print(f"{name}: {transcript[-1]}", file=sys.stderr)
            (RECORDED / f"{name}.json").write_text(as_text(transcript))
    if not args.names:
        for stale in {p.stem for p in RECORDED.glob("*.json")} - set(load()) - set(load(switched_on=True)):
            (RECORDED / f"{stale}.json").unlink()
    print(f"recorded, {len(bad)} stopped early: {' '.join(sorted(bad))}")
    return 1 if bad else 0


def intend(args: argparse.Namespace) -> int:
    """Stores what a server answers where it differs from the real one on purpose."""
    server = Server(args.address)
    server.wait_ready()
    INTENDED.mkdir(exist_ok=True)
    for name, scenario in choose(args).items():
        transcript = play_stable(server, scenario)
        if transcript == stored(RECORDED, name):
            raise SystemExit(f"{name} does not differ")
        print(difference(name, stored(RECORDED, name), transcript))
        (INTENDED / f"{name}.json").write_text(as_text(transcript))
    return 0


def check(args: argparse.Namespace) -> int:
    """Plays scenarios against a server and compares them with the recordings."""
    for path in INTENDED.glob("*.json"):
        if stored(RECORDED, path.stem) in ([], stored(INTENDED, path.stem)):
            raise SystemExit(f"{path.stem} has no recording that differs")
    server = Server(args.address)
    server.wait_ready()
    scenarios = choose(args)
    expected = {name: stored(INTENDED, name) or stored(RECORDED, name) for name in scenarios}
    playings = 1 if args.sabotage else 1 + args.again
    jobs = {name: partial(play_towards, server, s, expected[name], playings) for name, s in scenarios.items()}
    passed = 0
    differing = []
    began = time.monotonic()
    for name, (transcript, count) in in_parallel(jobs, args.workers):
        observed = sabotage(transcript) if args.sabotage else transcript
        if observed == expected[name]:
            passed += 1
            word = "ok" if count == 1 else f"ok, at playing {count}"
        else:
            differing.append(name)
            word = "DIFFERS"
            print(difference(name, expected[name], observed))
        done = passed + len(differing)
        print(f"[{done}/{len(jobs)} {time.monotonic() - began:.0f}s] {name}: {word}", flush=True)
    failed = 0
    for name in differing:
        # Some scenarios depend on time; beside others, on a busy machine, they may come too late.
        if not args.sabotage and play_towards(server, scenarios[name], expected[name], playings)[0] == expected[name]:
            passed += 1
            print(f"{name}: ok, alone", flush=True)
        else:
            failed += 1
            print(f"{name}: FAILED", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def stored(directory: Path, name: str) -> Transcript:
    """The stored transcript; empty if there is none."""
    path = directory / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def difference(name: str, expected: Transcript, observed: Transcript) -> str:
    """A readable unified diff."""
    old, new = as_text(expected).splitlines(), as_text(observed).splitlines()
    return "\n".join(difflib.unified_diff(old, new, f"{name} (recorded)", f"{name} (observed)", n=6, lineterm=""))


def main() -> int:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="transcripts", description=__doc__)
    parser.add_argument("--workers", type=int, default=8, help="scenarios played at the same time")
    parser.add_argument(
        "--switched-on", action="store_true", help="the scenarios that need features which are off by default"
    )
    commands = parser.add_subparsers(required=True)
    recorder = commands.add_parser("record", help="record against the real Temporal server")
    recorder.add_argument("--address", help="an already running real Temporal; otherwise one is started")
    recorder.add_argument("names", nargs="*")
    recorder.set_defaults(run=record)
    intender = commands.add_parser("intend", help="store what a server answers differently on purpose")
    intender.add_argument("--address", required=True)
    intender.add_argument("names", nargs="+")
    intender.set_defaults(run=intend)
    checker = commands.add_parser("check", help="compare a server with the recordings")
    checker.add_argument("--address", required=True)
    checker.add_argument("--sabotage", action="store_true", help="perturb every transcript: all must fail")
    checker.add_argument("--again", type=int, default=1, help="further playings a mismatch gets (busy machines)")
    checker.add_argument("names", nargs="*")
    checker.set_defaults(run=check)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
