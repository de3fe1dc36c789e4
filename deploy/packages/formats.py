"""The packages of a release. Each function returns the bytes of one file, from the same tree of installed files."""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Mapping

import archives
from archives import Entry, Files, Style
from binary import Binary

DEPLOY = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
SUMMARY = "durable workflow server that speaks Temporal's protocol"
LICENSE = "Apache-2.0 OR MIT"
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NODE_ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
# The user of the server in an image, as in other images that have no shell.
IMAGE_USER = 65532
DATA = "/data"


@dataclass(frozen=True)
class Release:
    """What all packages of a release say about themselves."""

    version: str
    commit: str
    style: Style

    @property
    def time(self) -> str:
        """That of the commit, in UTC."""
        return datetime.fromtimestamp(self.style.time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- what is installed


def documents(runs: Binary) -> dict[str, Entry]:
    """Manual pages, completions, the unit, examples and licences, below a prefix such as `usr`."""
    files = {
        "lib/systemd/system/segno.service": DEPLOY / "systemd/segno.service",
        "share/doc/segno/examples/segno.toml": DEPLOY / "segno.toml",
        "share/doc/segno/examples/segno.json": DEPLOY / "grafana/segno.json",
        "share/doc/segno/examples/alerts.yml": DEPLOY / "prometheus/alerts.yml",
        "share/doc/segno/LICENSE-APACHE": DEPLOY.parent / "LICENSE-APACHE",
        "share/doc/segno/LICENSE-MIT": DEPLOY.parent / "LICENSE-MIT",
    }
    found = {name: Entry(path.read_bytes()) for name, path in files.items()}
    shells = {
        "bash": "share/bash-completion/completions/segno",
        "zsh": "share/zsh/site-functions/_segno",
        "fish": "share/fish/vendor_completions.d/segno.fish",
    }
    found |= {name: Entry(runs.prints("completions", shell).encode()) for shell, name in shells.items()}
    with tempfile.TemporaryDirectory() as pages:
        runs.prints("man", "--directory", pages)
        for page in Path(pages).iterdir():
            content = archives.gz(page.read_bytes(), Style(time=0, level=9))
            found[f"share/man/man1/{page.name}.gz"] = Entry(content)
    return found


def program(binary: Binary) -> Entry:
    return Entry(binary.content, 0o755)


# --- tarball and Debian package


def tarball(release: Release, binary: Binary, documents: Files) -> tuple[str, bytes]:
    """To be unpacked by install.sh, or by hand into a prefix such as /usr/local."""
    name = f"segno-{release.version}-linux-{binary.architecture}"
    files = {"bin/segno": program(binary), **documents}
    return f"{name}.tar.gz", archives.tar_gz({f"{name}/{path}": entry for path, entry in files.items()}, release.style)


def debian_package(release: Release, binary: Binary, documents: Files) -> tuple[str, bytes]:
    architecture = DEBIAN_ARCHITECTURES[binary.architecture]
    copyright = "Copyright: The Segno authors\nLicense: MIT or Apache-2.0. Their texts are beside this file.\n"
    below = {"bin/segno": program(binary), **documents, "share/doc/segno/copyright": Entry(copyright.encode())}
    # Where Debian's zsh looks.
    below["share/zsh/vendor-completions/_segno"] = below.pop("share/zsh/site-functions/_segno")
    files = {f"./usr/{path}": entry for path, entry in below.items()}
    size = sum(len(entry.content or b"") for entry in files.values())
    depends = "" if binary.is_static else f"Depends: libc6 (>= {binary.glibc}), libgcc-s1\n"
    control = (
        f"Package: segno\nVersion: {release.version}\nArchitecture: {architecture}\n"
        f"Maintainer: The Segno authors <segno@localhost>\nInstalled-Size: {-(-size // 1024)}\n{depends}"
        f"Section: net\nPriority: optional\nDescription: {SUMMARY}\n"
        " Segno runs workflows that survive crashes of workers, servers and machines.\n"
        " It keeps its state in one local file, or in PostgreSQL.\n"
    )
    scripts = {f"./{name}": Entry((DEPLOY / "deb" / name).read_bytes(), 0o755) for name in ("postinst", "prerm", "postrm")}
    sums = "".join(f"{hashlib.md5(entry.content or b'').hexdigest()}  {path[2:]}\n" for path, entry in sorted(files.items()))
    scripts |= {"./control": Entry(control.encode()), "./md5sums": Entry(sums.encode())}
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", archives.tar_gz(scripts, release.style)),
        ("data.tar.gz", archives.tar_gz(with_parents(files), release.style)),
    ]
    return f"segno_{release.version}_{architecture}.deb", archives.ar(members, release.style)


def with_parents(files: Files) -> dict[str, Entry]:
    """The same with an entry for each directory, open to all."""
    parents = {f"{parent}/" for path in files for parent in Path(path).parents if str(parent) != "."}
    prefix = "./" if any(path.startswith("./") for path in files) else ""
    return {f"{prefix}{parent}": Entry(None, 0o755) for parent in parents} | dict(files)


# --- Python and Node


def wheel(release: Release, binary: Binary) -> tuple[str, bytes]:
    """A wheel whose only content is the binary, which pip installs beside `python`."""
    if binary.is_static:
        # It uses no C library, so any Linux that pip knows will do.
        platform = f"manylinux_2_17_{binary.architecture}.musllinux_1_1_{binary.architecture}"
    else:
        platform = f"manylinux_{binary.glibc.replace('.', '_')}_{binary.architecture}"
    stem = f"segno_server-{release.version}"
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.split("."))
    metadata = (
        f"Metadata-Version: 2.4\nName: segno-server\nVersion: {release.version}\nSummary: {SUMMARY}\n"
        f"License-Expression: {LICENSE}\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n"
        f"Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{(HERE / 'README.md').read_text()}"
    )
    files = {
        f"{stem}.data/scripts/segno": program(binary),
        f"{stem}.dist-info/METADATA": Entry(metadata.encode()),
        f"{stem}.dist-info/WHEEL": Entry(f"Wheel-Version: 1.0\nGenerator: segno\nRoot-Is-Purelib: false\n{tags}".encode()),
    }
    for name in "LICENSE-APACHE", "LICENSE-MIT":
        files[f"{stem}.dist-info/licenses/{name}"] = Entry((DEPLOY.parent / name).read_bytes())
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{path},sha256={url_digest(entry)},{len(entry.content or b'')}\n" for path, entry in sorted(files.items())]
    files[record] = Entry(("".join(lines) + f"{record},,\n").encode())
    return f"{stem}-py3-none-{platform}.whl", archives.zip_archive(files, release.style)


def url_digest(entry: Entry) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(entry.content or b"").digest()).rstrip(b"=").decode()


def npm_package_of(release: Release, binary: Binary) -> tuple[str, bytes]:
    """The binary for one machine. npm installs it where `os` and `cpu` fit."""
    cpu = NODE_ARCHITECTURES[binary.architecture]
    described = npm_description(f"segno-server-linux-{cpu}", release) | {"os": ["linux"], "cpu": [cpu]}
    return npm_archive(described, {"bin/segno": program(binary)}, release)


def npm_package(release: Release, binaries: list[Binary]) -> tuple[str, bytes]:
    """The package that users name: it starts the binary of the one that npm installed for their machine."""
    described = npm_description("segno-server", release) | {
        "bin": {"segno-server": "bin/segno.js", "segno": "bin/segno.js"},
        "engines": {"node": ">=18"},
        "optionalDependencies": {
            f"segno-server-linux-{NODE_ARCHITECTURES[binary.architecture]}": release.version for binary in binaries
        },
    }
    return npm_archive(described, {"bin/segno.js": Entry((HERE / "segno.js").read_bytes(), 0o755)}, release)


def npm_description(name: str, release: Release) -> dict[str, Any]:
    return {"name": name, "version": release.version, "description": SUMMARY, "license": LICENSE}


def npm_archive(described: dict[str, Any], files: Files, release: Release) -> tuple[str, bytes]:
    content = {f"package/{path}": entry for path, entry in files.items()}
    content["package/package.json"] = Entry((json.dumps(described, indent=2) + "\n").encode())
    content["package/README.md"] = Entry((HERE / "README.md").read_bytes())
    for name in "LICENSE-APACHE", "LICENSE-MIT":
        content[f"package/{name}"] = Entry((DEPLOY.parent / name).read_bytes())
    return f"{described['name']}-{described['version']}.tgz", archives.tar_gz(content, release.style)


# --- container image


def image(release: Release, binaries: list[Binary]) -> tuple[str, bytes]:
    """An OCI image layout in a tar file: one image for each machine, with the binary, /data and /tmp."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes | Mapping[str, Any], kind: str) -> dict[str, Any]:
        """Adds a blob and describes it."""
        if not isinstance(content, bytes):
            content = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    manifests = []
    for binary in binaries:
        layer = archives.tar(image_files(binary), release.style)
        platform = {"os": "linux", "architecture": DEBIAN_ARCHITECTURES[binary.architecture]}
        configuration = platform | {
            "created": release.time,
            "config": image_settings(release),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(configuration, "config.v1+json"),
            "layers": [blob(archives.gz(layer, release.style), "layer.v1.tar+gzip")],
        }
        manifests.append(blob(manifest, "manifest.v1+json") | {"platform": platform})
    names = {"org.opencontainers.image.ref.name": release.version, "io.containerd.image.name": f"segno:{release.version}"}
    if len(manifests) > 1:
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
        manifests = [blob(index, "index.v1+json")]
    top = {"schemaVersion": 2, "manifests": [manifest | {"annotations": names} for manifest in manifests]}
    files = {f"blobs/sha256/{digest}": Entry(content) for digest, content in blobs.items()}
    files["oci-layout"] = Entry(b'{"imageLayoutVersion":"1.0.0"}')
    files["index.json"] = Entry(json.dumps(top, separators=(",", ":"), sort_keys=True).encode())
    return f"segno-{release.version}-oci.tar", archives.tar(files, release.style)


def image_files(binary: Binary) -> dict[str, Entry]:
    files = {"usr/bin/segno": program(binary)}
    if not binary.is_static:
        files |= {str(path).lstrip("/"): Entry(path.read_bytes(), 0o755) for path in binary.libraries()}
    files = with_parents(files)
    files[f"{DATA.lstrip('/')}/"] = Entry(None, 0o700, IMAGE_USER)
    files["tmp/"] = Entry(None, 0o1777)
    return files


def image_settings(release: Release) -> dict[str, Any]:
    # The data is in /data/segno. SEGNO_DATA_DIR would exclude SEGNO_STORE, with which it is in PostgreSQL.
    return {
        "User": f"{IMAGE_USER}:{IMAGE_USER}",
        "Env": ["PATH=/usr/bin", "SEGNO_IP=0.0.0.0", f"XDG_DATA_HOME={DATA}", "SEGNO_LOG_FORMAT=json"],
        "Volumes": {DATA: {}},
        # gRPC, and HTTP for web pages, health and metrics.
        "ExposedPorts": {"7233/tcp": {}, "8233/tcp": {}},
        "StopSignal": "SIGTERM",
        "Entrypoint": ["/usr/bin/segno"],
        "Cmd": ["serve"],
        "Labels": {
            "org.opencontainers.image.title": "segno",
            "org.opencontainers.image.version": release.version,
            "org.opencontainers.image.revision": release.commit,
            "org.opencontainers.image.licenses": LICENSE,
        },
    }


# --- Kubernetes


def chart(release: Release) -> tuple[str, bytes]:
    """The Helm chart, as `helm package` writes it: with the version of the release."""
    place = DEPLOY / "helm/segno"
    files = {f"segno/{path.relative_to(place)}": Entry(path.read_bytes()) for path in place.rglob("*") if path.is_file()}
    described = files["segno/Chart.yaml"]
    text = (described.content or b"").decode().replace("0.0.0", release.version)
    files["segno/Chart.yaml"] = replace(described, content=text.encode())
    return f"segno-chart-{release.version}.tgz", archives.tar_gz(files, release.style)
