"""Packs server binaries that are already built: python3 deploy/packages --binary PATH --to DIRECTORY.

`cargo xtask dist` builds them and calls this. The same binaries and the same commit give the same bytes, on machines with the
same zlib. Needs nothing but Python 3.10, git and cargo, and openssl for a signature.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import bill
import binary
import formats
from archives import Style
from binary import Binary, NotABinary
from formats import Release

ROOT = Path(__file__).resolve().parents[2]
# Of a binary, in bytes.
SIZE_MAX = 30_000_000
SIGNING_KEY = "SEGNO_SIGNING_KEY"
SUMS = "SHA256SUMS"
MANIFEST = "manifest.json"
TARGETS = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 deploy/packages")
    parser.add_argument("--binary", type=Path, action="append", required=True, help="one for each architecture")
    parser.add_argument("--to", type=Path, required=True, help="emptied if an earlier release is in it")
    parser.add_argument("--level", type=int, default=9, choices=range(1, 10), metavar="1-9", help="how hard deflate tries")
    options = parser.parse_args()
    try:
        binaries = [binary.read(path) for path in options.binary]
        make_room(options.to)
        pack(binaries, options.to, options.level)
    except NotABinary as error:
        sys.exit(str(error))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}\n{error.stderr or ''}".strip())


def make_room(place: Path) -> None:
    """Removes an earlier release, and nothing else."""
    place.mkdir(parents=True, exist_ok=True)
    there = list(place.iterdir())
    if there and not (place / MANIFEST).exists():
        raise NotABinary(f"{place} has files that are not of a release")
    for path in there:
        path.unlink()


def pack(binaries: list[Binary], place: Path, level: int) -> None:
    runs = next((binary for binary in binaries if binary.runs_here), None)
    if runs is None:
        raise NotABinary("one binary must be for this machine: it prints the manual pages and the completions")
    release = describe(runs, level)
    documents = formats.documents(runs)
    made = []
    for each in binaries:
        made += [
            formats.tarball(release, each, documents),
            formats.debian_package(release, each, documents),
            formats.wheel(release, each),
            formats.npm_package_of(release, each),
        ]
    made += [
        formats.npm_package(release, binaries),
        formats.image(release, binaries),
        formats.chart(release),
        bill.bill(release, TARGETS[runs.architecture]),
        ("compose.yml", (formats.DEPLOY / "compose.yml").read_bytes().replace(b"0.0.0", release.version.encode())),
    ]
    key = os.environ.get(SIGNING_KEY, "")
    public_key = run_openssl(key, "pkey", "-pubout").decode() if key else ""
    made += [("install.sh", installer(release, public_key)), ("sizes.txt", table(binaries, dict(made)).encode())]
    made.append((MANIFEST, manifest(release, binaries, dict(made), public_key)))
    for name, content in made:
        (place / name).write_bytes(content)
    sums = "".join(f"{digest(content)}  {name}\n" for name, content in sorted(made)).encode()
    (place / SUMS).write_bytes(sums)
    if key:
        with tempfile.NamedTemporaryFile() as file:
            file.write(sums)
            file.flush()
            (place / f"{SUMS}.sig").write_bytes(run_openssl(key, "pkeyutl", "-sign", "-rawin", "-in", file.name))
    print(dict(made)["sizes.txt"].decode(), end="")
    signed = f"{SUMS}.sig is its signature" if key else f"not signed, because {SIGNING_KEY} is not set"
    print(f"{place} has segno {release.version}, commit {release.commit}; {SUMS} has the checksums, {signed}")


def describe(runs: Binary, level: int) -> Release:
    words = runs.prints("--version").split()
    version, commit = words[1], words[words.index("commit") + 1]
    stated = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    if stated is None or stated[1] != version:
        raise NotABinary(f"{runs.path} is version {version}, the source is another one")
    head = git("rev-parse", "--short=12", "HEAD")
    if commit != head:
        print(f"warning: the binary was built from commit {commit}, the other files are of {head}", file=sys.stderr)
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))
    return Release(version, commit, Style(time, level))


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def installer(release: Release, public_key: str) -> bytes:
    """install.sh with the version that it installs and the key with which it checks the signature."""
    text = (formats.DEPLOY / "install.sh").read_text()
    return text.replace("version=''", f"version='{release.version}'").replace("key=''", f"key='{public_key}'").encode()


def manifest(release: Release, binaries: list[Binary], made: dict[str, bytes], public_key: str) -> bytes:
    """What the release has. The signature of the checksums covers it."""
    document = {
        "name": "segno",
        "version": release.version,
        "commit": release.commit,
        "time": release.time,
        "binaries": [
            {
                "architecture": each.architecture,
                "static": each.is_static,
                "size": len(each.content),
                "sha256": digest(each.content),
            }
            for each in binaries
        ],
        "files": [{"name": name, "size": len(made[name]), "sha256": digest(made[name])} for name in sorted(made)],
        "signature": {"algorithm": "Ed25519", "file": f"{SUMS}.sig", "public_key": public_key} if public_key else None,
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def table(binaries: list[Binary], made: dict[str, bytes]) -> str:
    rows = []
    for each in binaries:
        kind = "static" if each.is_static else f"needs glibc {each.glibc}"
        over = "" if len(each.content) <= SIZE_MAX else f", over the limit of {SIZE_MAX / 1e6:.0f} MB"
        rows.append((f"the binary for {each.architecture} ({kind}{over})", len(each.content)))
    rows += [(name, len(content)) for name, content in sorted(made.items())]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}} {size / 1e6:>8.2f} MB\n" for name, size in rows)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def run_openssl(key: str, *words: str) -> bytes:
    """openssl with a private key in PEM, which no other user can read meanwhile."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(key)
        file.flush()
        option = "-in" if words[0] == "pkey" else "-inkey"
        return subprocess.run(["openssl", *words, option, file.name], capture_output=True, check=True).stdout


main()
