"""The software bill of materials: what is compiled into the binary, in CycloneDX's JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from pathlib import Path
from typing import Any

from formats import LICENSE, Release

ROOT = Path(__file__).resolve().parents[2]


def bill(release: Release, target: str) -> tuple[str, bytes]:
    linked = names_of_linked(target)
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--locked", "--filter-platform", target))
    packages = {package["id"]: package for package in metadata["packages"]}
    found = {key: package for key, package in packages.items() if (package["name"], package["version"]) in linked}
    checksums = read_checksums((ROOT / "Cargo.lock").read_text())
    components = [component(package, checksums) for package in found.values()]
    root = next(package for package in components if package["name"] == "segno")
    edges = {
        reference(packages[node["id"]]): sorted(
            reference(packages[edge["pkg"]])
            for edge in node["deps"]
            if edge["pkg"] in found and any(kind["kind"] is None for kind in edge["dep_kinds"])
        )
        for node in metadata["resolve"]["nodes"]
        if node["id"] in found
    }
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'segno {release.version} {release.commit} {target}')}",
        "version": 1,
        "metadata": {"timestamp": release.time, "component": root | {"type": "application", "version": release.version}},
        "components": sorted((one for one in components if one is not root), key=lambda one: one["bom-ref"]),
        "dependencies": [{"ref": name, "dependsOn": needs} for name, needs in sorted(edges.items())],
    }
    return f"segno-{release.version}.cdx.json", (json.dumps(document, indent=1) + "\n").encode()


def cargo(*words: str) -> str:
    command = [os.environ.get("CARGO", "cargo"), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def names_of_linked(target: str) -> set[tuple[str, str]]:
    """Names and versions of the crates that the server has with its own features, not with those of the workspace."""
    tree = cargo(
        "tree", "--locked", "--package", "segno", "--edges", "normal", "--target", target, "--prefix", "none", "--format", "{p}"
    )
    return {(words[0], words[1].removeprefix("v")) for words in map(str.split, tree.splitlines())}


def component(package: dict[str, Any], checksums: dict[tuple[str, str], str]) -> dict[str, Any]:
    name, version = package["name"], package["version"]
    described = {"type": "library", "bom-ref": reference(package), "name": name, "version": version}
    # Crates of this repository are not in a registry.
    if package["source"]:
        described["purl"] = f"pkg:cargo/{name}@{version}"
    expression = package["license"] or (None if package["source"] else LICENSE)
    if expression:
        described["licenses"] = [{"expression": expression.replace("/", " OR ")}]
    if checksum := checksums.get((name, version)):
        described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return described


def reference(package: dict[str, Any]) -> str:
    return f"{package['name']}@{package['version']}"


def read_checksums(lock: str) -> dict[tuple[str, str], str]:
    block = r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"'
    return {(name, version): checksum for name, version, checksum in re.findall(block, lock)}
