"""Dependencies keep the rules of deny.toml: licences, sources and bans. Advisories: test_advisories.py."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = (ROOT / "deny.toml").read_text()
ALLOWED = set(re.findall(r'"([^"]+)"', re.search(r"^allow = \[(.*?)\]", RULES, re.M | re.S)[1]))
BANNED = set(re.findall(r'crate = "([^"]+)"', RULES))
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
# It names no licence in its manifest; its licence file says MIT.
BY_FILE = {"temporalio-protos"}


def packages() -> list[dict]:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return json.loads(output)["packages"]


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Whether the allowed licences are enough for an SPDX expression; `/` is the old way to write OR."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    python = {"(": "(", ")": ")", "OR": "or", "AND": "and"}
    terms = []
    for word in words:
        if terms and terms[-1] == "WITH":
            # An exception grants more, so that the licence alone is enough.
            terms.pop()
        elif word in python:
            terms.append(python[word])
        else:
            terms.append("WITH" if word == "WITH" else str(word in allowed))
    return eval(" ".join(terms), {"__builtins__": {}})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("GPL-3.0/MIT", True),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR GPL-3.0) AND Zlib", True),
        ("Apache-2.0 WITH LLVM-exception", True),
    ],
)
def test_expressions(expression: str, expected: bool) -> None:
    assert is_allowed(expression, {"MIT", "Zlib", "Apache-2.0"}) is expected


def test_licences_sources_and_bans() -> None:
    problems = []
    others = [package for package in packages() if package["source"] is not None]
    assert len(others) > 100
    for package in others:
        name = f"{package['name']} {package['version']}"
        if package["source"] != REGISTRY:
            problems.append(f"{name} comes from {package['source']}")
        if package["name"] in BANNED:
            problems.append(f"{name} is banned")
        if package["license"] is None and package["name"] not in BY_FILE:
            problems.append(f"{name} names no licence")
        if package["license"] is not None and not is_allowed(package["license"], ALLOWED):
            problems.append(f"{name} has the licence {package['license']}, which deny.toml does not allow")
    assert problems == []
