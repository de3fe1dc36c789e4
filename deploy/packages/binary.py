"""What a package must know about the binary that it holds."""

from __future__ import annotations

import platform
import re
import struct
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# Of the ELF format.
MACHINES = {62: "x86_64", 183: "aarch64"}
PROGRAM_INTERPRETER = 3


class NotABinary(Exception):
    """The file cannot be packed."""


@dataclass(frozen=True)
class Binary:
    """A server for Linux."""

    path: Path
    content: bytes
    # As `uname -m` prints it.
    architecture: str
    # It needs no file beside itself.
    is_static: bool

    @cached_property
    def glibc(self) -> str:
        """The newest version of the C library of which a dynamic binary names a symbol, such as 2.34."""
        found = {tuple(map(int, version.split(b"."))) for version in re.findall(rb"GLIBC_(\d+\.\d+)", self.content)}
        return ".".join(map(str, max(found)))

    @property
    def runs_here(self) -> bool:
        return platform.machine() == self.architecture

    def libraries(self) -> list[Path]:
        """What the loader puts beside a dynamic binary, itself included."""
        listed = subprocess.run(["ldd", self.path], capture_output=True, text=True, check=True).stdout
        return [Path(found) for found in re.findall(r"(/\S+) \(0x", listed)]

    def prints(self, *words: str) -> str:
        return subprocess.run([self.path, *words], capture_output=True, text=True, check=True).stdout


def read(path: Path) -> Binary:
    content = path.read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        raise NotABinary(f"{path} is no 64-bit little-endian ELF file")
    machine = struct.unpack_from("<H", content, 18)[0]
    if machine not in MACHINES:
        raise NotABinary(f"{path} is for a machine of the number {machine}, which has no packages")
    return Binary(path, content, MACHINES[machine], PROGRAM_INTERPRETER not in segments(content))


def segments(content: bytes) -> set[int]:
    """The types of the segments of an ELF file."""
    start = struct.unpack_from("<Q", content, 32)[0]
    size, count = struct.unpack_from("<HH", content, 54)
    return {struct.unpack_from("<I", content, start + size * number)[0] for number in range(count)}
