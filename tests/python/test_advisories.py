"""No dependency has a known hole: Cargo.lock against the advisory database of RustSec.

The database is `SEGNO_ADVISORY_DB`, a directory that must be there, or is cloned; the machine may have no way to it.
"""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATABASE = "https://github.com/RustSec/advisory-db"

# An identifier of a pre-release: numbers are before texts.
Identifier = tuple[int, int, str]
# Whether it is a release, and the identifiers of a pre-release: fewer are before more.
Release = tuple[bool, tuple[Identifier, ...]]
Version = tuple[int, int, int, Release]

RELEASE: Release = (True, ())
# Before every pre-release of a version.
FIRST: Release = (False, ())
LOWEST: Version = (0, 0, 0, FIRST)
HIGHEST: Version = (1 << 32, 0, 0, RELEASE)


def version(text: str) -> Version:
    """Comparable, as semantic versions are; a pre-release is before its release."""
    core, _, before = text.partition("+")[0].partition("-")
    numbers = [int(number) for number in core.split(".")]
    major, minor, patch = numbers + [0] * (3 - len(numbers))
    if not before:
        return (major, minor, patch, RELEASE)
    identifiers = tuple((0, int(one), "") if one.isdecimal() else (1, 0, one) for one in before.split("."))
    return (major, minor, patch, (False, identifiers))


def bounds(comparator: str) -> tuple[Version, Version]:
    """The first version that a comparator of Cargo allows, and the first after those."""
    operator, text = re.fullmatch(r"(>=|<=|>|<|=|\^|~)?\s*(\S+)", comparator.strip()).groups()
    if text == "*":
        return LOWEST, HIGHEST
    if text.endswith(".*"):
        operator, text = "=", text.partition(".*")[0]
    at = version(text)
    major, minor, patch, (released, identifiers) = at
    named = text.partition("+")[0].partition("-")[0].count(".") + 1
    # What a short version leaves open: 1.2 stands for every 1.2.x.
    next_named = {1: (major + 1, 0, 0), 2: (major, minor + 1, 0), 3: (major, minor, patch + 1)}[named]
    # The first possible one after it. After a pre-release that is the same with one more identifier.
    after = (*next_named, FIRST) if released else (major, minor, patch, (False, (*identifiers, (-1, 0, ""))))
    match operator:
        case ">=":
            return at, HIGHEST
        case ">":
            return (*next_named, RELEASE) if named < 3 else after, HIGHEST
        case "<":
            return LOWEST, at
        case "<=":
            return LOWEST, after
        case "=":
            return at, after
        case "~":
            return at, (major + 1, 0, 0, FIRST) if named == 1 else (major, minor + 1, 0, FIRST)
    if major > 0 or named == 1:
        return at, (major + 1, 0, 0, FIRST)
    if minor > 0 or named == 2:
        return at, (0, minor + 1, 0, FIRST)
    return at, (0, 0, patch + 1, FIRST)


def is_in(one: str, requirement: str) -> bool:
    return all(first <= version(one) < end for first, end in map(bounds, requirement.split(",")))


def findings(lock: dict, advisories: list[dict]) -> list[str]:
    locked = [(package["name"], package["version"]) for package in lock["package"]]
    found = []
    for entry in advisories:
        advisory, versions = entry["advisory"], entry.get("versions", {})
        if "withdrawn" in advisory:
            continue
        safe = versions.get("patched", []) + versions.get("unaffected", [])
        for name, one in locked:
            if name == advisory["package"] and not any(is_in(one, requirement) for requirement in safe):
                found.append(f"{name} {one}: {advisory['id']}")
    return found


def read(database: Path) -> list[dict]:
    """The front matter of every advisory."""
    texts = [file.read_text() for file in sorted(database.glob("crates/*/*.md"))]
    return [tomllib.loads(re.match(r"```toml\n(.*?)```", text, re.S)[1]) for text in texts]


def is_cloned(to: Path) -> bool:
    """Clones the database, where that goes without a question and soon."""
    clone = ["git", "clone", "--quiet", "--depth", "1", DATABASE, str(to)]
    try:
        return subprocess.run(clone, timeout=60, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"}).returncode == 0
    except (subprocess.TimeoutExpired, FileNotFoundError):
        return False


@pytest.mark.parametrize(
    ("one", "requirement", "expected"),
    [
        ("1.2.3", ">= 1.2.3", True),
        ("1.2.3-rc.1", ">= 1.2.3", False),
        ("1.2.2", ">= 1.2.3", False),
        ("1.9.0", "^1.2", True),
        ("2.0.0", "^1.2", False),
        ("0.3.9", "^0.3.2", True),
        ("0.4.0", "^0.3.2", False),
        ("0.0.4", "^0.0.3", False),
        ("1.2.9", "~1.2.3", True),
        ("1.3.0", "~1.2.3", False),
        ("0.9.9", "< 1.0", True),
        ("1.0.0", "<= 1.0.0", True),
        ("1.0.0", "= 1.0.0", True),
        ("1.0.1", "> 1.0.0, < 1.0.2", True),
        ("1.0.2", "> 1.0.0, < 1.0.2", False),
        ("1.2.5", "> 1.2", False),
        ("1.3.0", "> 1.2", True),
        ("1.9.0", "> 1", False),
        ("2.0.0", "> 1", True),
        ("1.2.5", ">= 1.2", True),
        ("1.2.5", "< 1.2", False),
        ("1.2.5", "<= 1.2", True),
        ("1.3.0", "<= 1.2", False),
        ("1.3.0-rc.1", "<= 1.2", False),
        ("1.2.5", "= 1.2", True),
        ("1.3.0", "= 1.2", False),
        ("1.9.0", "= 1", True),
        ("1.2.5", "1.2.*", True),
        ("1.3.0", "1.2.*", False),
        ("1.9.0", "~1", True),
        ("1.3.0", "~1.2", False),
        ("1.0.0-rc.2", ">= 1.0.0-rc.2", True),
        ("1.0.0-rc.1", ">= 1.0.0-rc.2", False),
        ("1.0.0-rc.10", ">= 1.0.0-rc.2", True),
        ("1.0.0", ">= 1.0.0-rc.2", True),
        ("1.0.0-rc", "< 1.0.0-rc.1", True),
        ("1.0.0-1", "< 1.0.0-alpha", True),
        ("1.0.0-alpha", "< 1.0.0-beta", True),
        ("1.0.0-rc.1", "> 1.0.0-rc.1", False),
        ("1.0.0-rc.1.0", "> 1.0.0-rc.1", True),
        ("1.0.0-rc.1", "= 1.0.0-rc.1", True),
        ("1.0.0-rc.1.0", "= 1.0.0-rc.1", False),
        ("1.0.0-rc.1", "= 1.0.0", False),
        ("1.0.0+build", "= 1.0.0", True),
        ("2.0.0-rc.1", "^1.2", False),
    ],
)
def test_requirements(one: str, requirement: str, expected: bool) -> None:
    assert is_in(one, requirement) is expected


def test_a_dependency_with_a_hole_is_found() -> None:
    lock = {"package": [{"name": "hole", "version": "1.0.0"}, {"name": "hole", "version": "1.0.1"}, {"name": "sound", "version": "1.0.0"}]}
    advisory = {"advisory": {"id": "RUSTSEC-0000-0001", "package": "hole"}, "versions": {"patched": [">= 1.0.1"]}}
    withdrawn = {"advisory": {"id": "RUSTSEC-0000-0002", "package": "sound", "withdrawn": "2026-01-01"}}
    assert findings(lock, [advisory, withdrawn]) == ["hole 1.0.0: RUSTSEC-0000-0001"]


@pytest.mark.timeout(120)
def test_no_dependency_has_an_advisory_where_the_database_can_be_had(tmp_path: Path) -> None:
    database = tmp_path / "database"
    if named := os.environ.get("SEGNO_ADVISORY_DB"):
        database = Path(named)
        assert database.is_dir(), f"SEGNO_ADVISORY_DB is {named}, and there is no such directory"
    elif not is_cloned(database):
        pytest.skip("the advisory database cannot be cloned from this machine")
    advisories = read(database)
    assert len(advisories) > 1000, "that is not the database"
    assert findings(tomllib.loads((ROOT / "Cargo.lock").read_text()), advisories) == []
