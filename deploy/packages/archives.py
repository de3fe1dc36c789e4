"""Archives whose bytes depend on nothing but their contents: entries in the order of their names, one time, owner 0."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import zipfile
from dataclasses import dataclass
from typing import Mapping


@dataclass(frozen=True)
class Entry:
    """A file of an archive, or a directory if there is no content."""

    content: bytes | None
    mode: int = 0o644
    owner: int = 0


Files = Mapping[str, Entry]


@dataclass(frozen=True)
class Style:
    """What archives of one release have in common: the time of each entry, and how hard deflate tries (1 to 9)."""

    time: int
    level: int


def tar(files: Files, style: Style) -> bytes:
    """Names in it are those of `files`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, entry in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.owner, entry.owner, style.time
            info.uname = info.gname = "" if entry.owner else "root"
            if entry.content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(entry.content)
                archive.addfile(info, io.BytesIO(entry.content))
    return buffer.getvalue()


def tar_gz(files: Files, style: Style) -> bytes:
    return gz(tar(files, style), style)


def gz(content: bytes, style: Style) -> bytes:
    """No time and no name are in its header."""
    return gzip.compress(content, style.level, mtime=0)


def zip_archive(files: Files, style: Style) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=style.level) as archive:
        for name, entry in sorted(files.items()):
            info = zipfile.ZipInfo(name, time.gmtime(style.time)[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, so that modes count.
            info.external_attr = (0o100000 | entry.mode) << 16
            archive.writestr(info, entry.content or b"", compresslevel=style.level)
    return buffer.getvalue()


def ar(members: list[tuple[str, bytes]], style: Style) -> bytes:
    """The outer archive of a Debian package. Its members have an order that matters."""
    parts = [b"!<arch>\n"]
    for name, content in members:
        parts.append(f"{name:<16}{style.time:<12}{0:<6}{0:<6}{0o100644:<8o}{len(content):<10}`\n".encode())
        parts.append(content + b"\n" * (len(content) % 2))
    return b"".join(parts)
