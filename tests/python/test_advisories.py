"""No dependency has a known hole: Cargo.lock against the advisory database of RustSec.

The database is `SEGNO_ADVISORY_DB`, a directory, or is cloned; the machine may have no way to it.
"""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATABASE = "https://github.com/RustSec/advisory-db"
HIGHEST = (1 << 32, 0, 0, True)

Version = tuple[int, int, int, bool]


def version(text: str) -> Version:
    """Comparable; a pre-release is before its release."""
    core, _, before = text.partition("+")[0].partition("-")
    numbers = [int(number) for number in core.split(".")]
    major, minor, patch = numbers + [0] * (3 - len(numbers))
    return (major, minor, patch, before == "")


def bounds(comparator: str) -> tuple[Version, Version]:
    """The first version that a comparator of Cargo allows, and the first after those."""
    operator, text = re.fullmatch(r"(>=|<=|>|<|=|\^|~)?\s*(\S+)", comparator.strip()).groups()
    lowest = (0, 0, 0, False)
    if text == "*":
        return lowest, HIGHEST
    at = version(text)
    major, minor, patch, released = at
    # A version and its pre-releases are different; the next possible one after a release is a pre-release of the next patch.
    after = (major, minor, patch + 1, False) if released else (major, minor, patch, True)
    match operator:
        case ">=":
            return at, HIGHEST
        case ">":
            return after, HIGHEST
        case "<":
            return lowest, at
        case "<=":
            return lowest, after
        case "=":
            return at, after
        case "~":
            return at, (major, minor + 1, 0, False) if "." in text else (major + 1, 0, 0, False)
    named = text.partition("-")[0].count(".") + 1
    if major > 0 or named == 1:
        return at, (major + 1, 0, 0, False)
    if minor > 0 or named == 2:
        return at, (0, minor + 1, 0, False)
    return at, (0, 0, patch + 1, False)


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
    ],
)
def test_requirements(one: str, requirement: str, expected: bool) -> None:
    assert is_in(one, requirement) is expected


def test_a_dependency_with_a_hole_is_found() -> None:
    lock = {"package": [{"name": "hole", "version": "1.0.0"}, {"name": "hole", "version": "1.0.1"}, {"name": "sound", "version": "1.0.0"}]}
    advisory = {"advisory": {"id": "RUSTSEC-0000-0001", "package": "hole"}, "versions": {"patched": [">= 1.0.1"]}}
    withdrawn = {"advisory": {"id": "RUSTSEC-0000-0002", "package": "sound", "withdrawn": "2026-01-01"}}
    assert findings(lock, [advisory, withdrawn]) == ["hole 1.0.0: RUSTSEC-0000-0001"]


def test_no_dependency_has_an_advisory_where_the_database_can_be_had(tmp_path: Path) -> None:
    database = Path(os.environ.get("SEGNO_ADVISORY_DB", tmp_path / "database"))
    if not database.exists():
        clone = ["git", "clone", "--quiet", "--depth", "1", DATABASE, str(database)]
        if subprocess.run(clone, timeout=300).returncode != 0:
            pytest.skip("the advisory database cannot be cloned from this machine")
    advisories = read(database)
    assert len(advisories) > 1000, "that is not the database"
    assert findings(tomllib.loads((ROOT / "Cargo.lock").read_text()), advisories) == []
