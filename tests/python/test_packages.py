"""The packages of a release: each is installed into an empty place and runs a workflow.

Without $SEGNO_RELEASE, the directory of a release, one is packed of the binary under test, stripped and with little compression.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import tomllib
import zipfile
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import answers, free_port, segno_binary

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MACHINE = platform.machine()
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}[MACHINE]
NODE = {"x86_64": "x64", "aarch64": "arm64"}[MACHINE]
USAGE = 64

# Packing and installing what is 80 MB in a debug build.
pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=800, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


def pack(binary: Path, place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    tool = [sys.executable, DEPLOY / "packages", "--binary", binary, "--to", place, "--level", "1"]
    return run(*tool, env={**os.environ, **variables})


@pytest.fixture
def small_binary(tmp_path: Path) -> Path:
    """A program that does what the binary does, without its size."""
    source = '#include <unistd.h>\nint main(int n, char **words) { return execv(BINARY, words); }\n'
    binary = f'-DBINARY="{segno_binary()}"'
    run("cc", "-static", "-x", "c", "-", "-o", tmp_path / "small", binary, input=source)
    return tmp_path / "small"


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get("SEGNO_RELEASE"):
        return Path(given)
    place = tmp_path_factory.mktemp("packages")
    # A debug build has twice as many bytes of names as of anything else.
    run("strip", "-o", place / "segno", segno_binary())
    key = run("openssl", "genpkey", "-algorithm", "ed25519").stdout
    pack(place / "segno", place / "release", SEGNO_SIGNING_KEY=key)
    return place / "release"


@pytest.fixture(scope="session")
def manifest(release: Path) -> dict[str, Any]:
    return json.loads((release / "manifest.json").read_text())


@activity.defn
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@workflow.defn
class Greeting:
    @workflow.run
    async def run(self, name: str) -> str:
        return await workflow.execute_activity(greet, name, start_to_close_timeout=timedelta(seconds=10))


async def runs_hello_world(command: list[str], log: Path, **options: Any) -> None:
    """Starts an installed server on a file, runs hello world with a worker and stops it by SIGTERM."""
    port, http_port = free_port(), free_port()
    settings = {"SEGNO_PORT": str(port), "SEGNO_HTTP_PORT": str(http_port)}
    environment = {**{name: value for name, value in os.environ.items() if not name.startswith("SEGNO_")}, **settings}
    environment |= options.pop("env", {})
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment, **options)
    try:
        address = f"127.0.0.1:{port}"
        for _ in range(600):
            assert server.poll() is None, log.read_text()
            if answers(address):
                break
            await asyncio.sleep(0.1)
        client = await Client.connect(address)
        worker = Worker(
            client, task_queue="hello", workflows=[Greeting], activities=[greet], workflow_runner=UnsandboxedWorkflowRunner()
        )
        async with worker:
            assert await client.execute_workflow(Greeting.run, "world", id="hello", task_queue="hello") == "Hello, world!"
        server.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.wait, 60) == 0, log.read_text()
    finally:
        server.kill()
        server.wait()


# --- the release as a whole


def test_checksums_and_signature_cover_every_file(release: Path, manifest: dict[str, Any]) -> None:
    lines = [line.split("  ") for line in (release / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    files = {path.name: path for path in release.iterdir() if not path.name.startswith("SHA256SUMS")}
    assert sums == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    listed = {file["name"]: (file["size"], file["sha256"]) for file in manifest["files"]}
    assert listed == {name: (path.stat().st_size, sums[name]) for name, path in files.items() if name != "manifest.json"}
    signature = manifest["signature"]
    assert (signature is not None) == (release / "SHA256SUMS.sig").exists()


def test_the_table_has_the_size_of_every_file(release: Path, manifest: dict[str, Any]) -> None:
    rows = dict(re.findall(r"^(.*?) +([\d.]+) MB$", (release / "sizes.txt").read_text(), re.MULTILINE))
    for file in manifest["files"]:
        if file["name"] not in {"install.sh", "sizes.txt"}:
            assert rows[file["name"]] == f"{file['size'] / 1e6:.2f}"
    [binary] = [name for name in rows if name.startswith(f"the binary for {MACHINE}")]
    size = next(each["size"] for each in manifest["binaries"] if each["architecture"] == MACHINE)
    assert rows[binary] == f"{size / 1e6:.2f}"
    assert ("over the limit of 30 MB" in binary) == (size > 30_000_000)


def test_the_same_binary_and_commit_give_the_same_bytes(tmp_path: Path, small_binary: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    # The order of sets depends on the seed, names of files on nothing but the version.
    # Said here, so that a commit meanwhile changes nothing.
    time = {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct", cwd=ROOT).stdout.strip()}
    told = pack(small_binary, first, PYTHONHASHSEED="1", TZ="UTC", **time).stdout
    assert "not signed, because SEGNO_SIGNING_KEY is not set" in told
    for _ in range(2):
        pack(small_binary, second, PYTHONHASHSEED="2", TZ="Asia/Tokyo", **time)
        names = sorted(path.name for path in first.iterdir())
        assert names == sorted(path.name for path in second.iterdir()) and len(names) > 10
        for name in names:
            assert (first / name).read_bytes() == (second / name).read_bytes(), name
    # A signature changes nothing but itself, the key in install.sh and what covers both.
    key = run("openssl", "genpkey", "-algorithm", "ed25519").stdout
    assert "is its signature" in pack(small_binary, second, SEGNO_SIGNING_KEY=key, **time).stdout
    changed = {name for name in names if (first / name).read_bytes() != (second / name).read_bytes()}
    assert changed == {"install.sh", "manifest.json", "SHA256SUMS"}
    assert {path.name for path in second.iterdir()} - set(names) == {"SHA256SUMS.sig"}


def test_other_files_are_left_alone(tmp_path: Path, small_binary: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes").write_text("mine")
    command = [sys.executable, DEPLOY / "packages", "--binary", small_binary, "--to", tmp_path / "other"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "files that are not of a release" in done.stderr
    assert (tmp_path / "other/notes").read_text() == "mine"


def test_a_release_for_two_architectures(tmp_path: Path, small_binary: Path) -> None:
    """The other one by its header alone: what it says is what the packages go by."""
    content = bytearray(small_binary.read_bytes())
    content[18] = {"x86_64": 183, "aarch64": 62}[MACHINE]
    (tmp_path / "other").write_bytes(content)
    run(
        *[sys.executable, DEPLOY / "packages", "--to", tmp_path / "release", "--level", "1"],
        *["--binary", small_binary, "--binary", tmp_path / "other"],
    )
    manifest = json.loads((tmp_path / "release/manifest.json").read_text())
    assert {each["architecture"] for each in manifest["binaries"]} == {"x86_64", "aarch64"}
    version, names = manifest["version"], {file["name"] for file in manifest["files"]}
    for machine, debian, node in ("x86_64", "amd64", "x64"), ("aarch64", "arm64", "arm64"):
        expected = {f"segno-{version}-linux-{machine}.tar.gz", f"segno_{version}_{debian}.deb"}
        assert expected | {f"segno-server-linux-{node}-{version}.tgz"} <= names
    with tarfile.open(tmp_path / f"release/segno-server-{version}.tgz") as archive:
        file = archive.extractfile("package/package.json")
        assert file
        described = json.load(file)
    assert described["optionalDependencies"] == {"segno-server-linux-x64": version, "segno-server-linux-arm64": version}
    with tarfile.open(tmp_path / f"release/segno-{version}-oci.tar") as archive:
        opened = archive.extractfile("index.json")
        assert opened
        [index] = json.load(opened)["manifests"]
        opened = archive.extractfile(f"blobs/sha256/{index['digest'].removeprefix('sha256:')}")
        assert opened
        platforms = {one["platform"]["architecture"] for one in json.load(opened)["manifests"]}
    assert platforms == {"amd64", "arm64"}
    # Nothing of the other architecture alone can be packed: it prints no manual pages here.
    command = [sys.executable, DEPLOY / "packages", "--binary", tmp_path / "other", "--to", tmp_path / "none"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "one binary must be for this machine" in done.stderr


def test_only_binaries_for_linux_are_packed(tmp_path: Path) -> None:
    text = tmp_path / "segno"
    text.write_text("#!/bin/sh\n")
    command = [sys.executable, DEPLOY / "packages", "--binary", text, "--to", tmp_path / "release"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "is no 64-bit little-endian ELF file" in done.stderr


def test_the_bill_of_materials(release: Path, manifest: dict[str, Any]) -> None:
    bill = json.loads((release / f"segno-{manifest['version']}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    components = {component["bom-ref"]: component for component in bill["components"]}
    assert len(components) == len(bill["components"])
    locked = set(re.findall(r'name = "(.*)"\nversion = "(.*)"', (ROOT / "Cargo.lock").read_text()))
    assert {(component["name"], component["version"]) for component in components.values()} <= locked
    for component in components.values():
        ours = component["name"].startswith("segno")
        assert ("hashes" in component and "purl" in component) != ours, component
        # Its manifest names none (see deny.toml).
        assert "licenses" in component or component["name"] == "temporalio-protos", component
    # What is linked is in it; tools and what only tests use are not.
    names = {component["name"] for component in components.values()}
    assert {"rustls", "tokio", "rusqlite", "segno-engine"} <= names and not {"segno-sdk", "segno-harness", "xtask"} & names
    assert {edge["ref"] for edge in bill["dependencies"]} == components.keys() | {bill["metadata"]["component"]["bom-ref"]}
    for edge in bill["dependencies"]:
        assert set(edge["dependsOn"]) <= components.keys(), edge


# --- tarball and install.sh

INSTALLED = {
    "bin/segno": 0o755,
    "lib/systemd/system/segno.service": 0o644,
    "share/man/man1/segno.1.gz": 0o644,
    "share/man/man1/segno-workflow-why.1.gz": 0o644,
    "share/bash-completion/completions/segno": 0o644,
    "share/zsh/site-functions/_segno": 0o644,
    "share/fish/vendor_completions.d/segno.fish": 0o644,
    "share/doc/segno/examples/segno.toml": 0o644,
    "share/doc/segno/examples/segno.json": 0o644,
    "share/doc/segno/examples/alerts.yml": 0o644,
    "share/doc/segno/LICENSE-MIT": 0o644,
}


def modes(root: Path, names: Any) -> dict[str, int]:
    return {name: (root / name).stat().st_mode & 0o777 for name in names if (root / name).exists()}


def install(script: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", script, *words], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="session")
def trust(release: Path, manifest: dict[str, Any]) -> list[str]:
    """The option with which an unsigned release is installed."""
    return [] if manifest["signature"] else ["--unsigned"]


async def test_install_sh_from_a_server(release: Path, trust: list[str], tmp_path: Path) -> None:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(release))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        done = await asyncio.to_thread(
            install, release / "install.sh", "--from", url, "--prefix", tmp_path / "prefix", *trust
        )
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert modes(tmp_path / "prefix", INSTALLED) == INSTALLED
    unit = (tmp_path / "prefix/lib/systemd/system/segno.service").read_text()
    assert f"\nExecStart={tmp_path}/prefix/bin/segno serve\n" in unit
    await runs_hello_world([f"{tmp_path}/prefix/bin/segno", "serve", "--data-dir", str(tmp_path / "data")], tmp_path / "log")


def test_install_sh_replaces_an_earlier_version(release: Path, trust: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        done = install(release / "install.sh", "--from", release, "--prefix", tmp_path, *trust)
        assert done.returncode == 0, done.stderr
    assert modes(tmp_path, INSTALLED) == INSTALLED
    assert run(tmp_path / "bin/segno", "--version").stdout.startswith("segno ")
    assert not list(tmp_path.glob("bin/*.new"))


def test_install_sh_refuses_what_was_changed(release: Path, manifest: dict[str, Any], tmp_path: Path) -> None:
    copied, prefix = tmp_path / "copied", tmp_path / "prefix"
    tarball = f"segno-{manifest['version']}-linux-{MACHINE}.tar.gz"
    copied.mkdir()
    for name in "SHA256SUMS", "SHA256SUMS.sig", "install.sh", tarball:
        if (release / name).exists():
            shutil.copy(release / name, copied)

    def refused(*words: str) -> str:
        done = install(copied / "install.sh", "--from", copied, "--prefix", prefix, *words)
        assert done.returncode == 1 and not prefix.exists()
        return done.stderr

    with (copied / tarball).open("ab") as file:
        file.write(b"x")
    assert f"the checksum of {tarball} is wrong" in refused(*([] if manifest["signature"] else ["--unsigned"]))
    if not manifest["signature"]:
        assert "no key to check the signature with" in refused()
        return
    # Checksums that fit, but are not those that were signed.
    sums = (copied / "SHA256SUMS").read_text()
    changed = hashlib.sha256((copied / tarball).read_bytes()).hexdigest()
    (copied / "SHA256SUMS").write_text(re.sub(rf"\w+(?=  {re.escape(tarball)})", changed, sums))
    assert "the signature of SHA256SUMS is wrong" in refused()
    (copied / "SHA256SUMS.sig").unlink()
    assert "SHA256SUMS.sig cannot be had" in refused()
    # Only the operator can leave the signature out.
    done = install(copied / "install.sh", "--from", copied, "--prefix", tmp_path / "unsigned", "--unsigned")
    assert "The signature is not checked" in done.stdout
    # The key of the operator counts, not the one of the file.
    (copied / "SHA256SUMS").write_text(sums)
    shutil.copy(release / "SHA256SUMS.sig", copied)
    (tmp_path / "key").write_text(run("openssl", "genpkey", "-algorithm", "ed25519").stdout)
    run("openssl", "pkey", "-in", tmp_path / "key", "-pubout", "-out", tmp_path / "key.pem")
    assert "the signature of SHA256SUMS is wrong" in refused("--key", str(tmp_path / "key.pem"))


def test_install_sh_of_the_source_needs_a_version_and_a_key(release: Path, tmp_path: Path) -> None:
    script = DEPLOY / "install.sh"
    assert "--from must name the release" in install(script).stderr
    assert "--version is needed" in install(script, "--from", release).stderr
    assert "unknown option --nonsense" in install(script, "--nonsense").stderr
    done = install(script, "--from", release, "--version", "0.1.0", "--prefix", tmp_path / "prefix")
    assert done.returncode == 1 and "no key to check the signature with" in done.stderr


# --- Debian package


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg is not installed")
async def test_the_debian_package(release: Path, manifest: dict[str, Any], tmp_path: Path) -> None:
    package = release / f"segno_{manifest['version']}_{DEBIAN}.deb"
    fields = run("dpkg-deb", "--field", package, "Version", "Package", "Architecture").stdout.splitlines()
    assert fields == [f"Version: {manifest['version']}", "Package: segno", f"Architecture: {DEBIAN}"]
    static = next(each["static"] for each in manifest["binaries"] if each["architecture"] == MACHINE)
    depends = run("dpkg-deb", "--field", package, "Depends").stdout.strip()
    assert depends == "" if static else re.fullmatch(r"libc6 \(>= 2\.\d+\), libgcc-s1", depends)
    run("dpkg-deb", "--extract", package, tmp_path / "root")
    expected = {f"usr/{name}": mode for name, mode in INSTALLED.items() if "zsh" not in name}
    expected["usr/share/zsh/vendor-completions/_segno"] = 0o644
    assert modes(tmp_path / "root", expected) == expected
    for script in "postinst", "prerm", "postrm":
        text = run("dpkg-deb", "--info", package, script).stdout
        assert text == (DEPLOY / "deb" / script).read_text()
        # Without a running systemd, as in an image, they do nothing and do not fail.
        if not Path("/run/systemd/system").exists():
            run("sh", "-s", "configure", input=text)
    # Root's directories are not closed to others.
    listed = run("dpkg-deb", "--contents", package).stdout.splitlines()
    assert any(line.endswith(" ./usr/bin/") for line in listed)
    assert all(line.startswith(("drwxr-xr-x root/root", "-rw")) for line in listed)
    binary = tmp_path / "root/usr/bin/segno"
    await runs_hello_world([str(binary), "serve", "--data-dir", str(tmp_path / "data")], tmp_path / "log")


@pytest.mark.skipif(not shutil.which("dpkg") or os.geteuid() != 0, reason="dpkg installs for root only")
def test_dpkg_installs_and_removes_the_package(release: Path, manifest: dict[str, Any], tmp_path: Path) -> None:
    package = release / f"segno_{manifest['version']}_{DEBIAN}.deb"
    # A root of its own. Its scripts would run in it, where there is no shell; what it depends on is not there either.
    (tmp_path / "root/var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "root/var/lib/dpkg/status").touch()
    dpkg = ["dpkg", "--root", tmp_path / "root", "--force-not-root", "--force-depends", "--force-script-chrootless"]
    run(*dpkg, "--install", package)
    files = run(*dpkg, "--listfiles", "segno").stdout.splitlines()
    assert "/usr/bin/segno" in files and (tmp_path / "root/usr/bin/segno").exists()
    run(*dpkg, "--verify", "segno")
    run(*dpkg, "--purge", "segno")
    assert not (tmp_path / "root/usr/bin/segno").exists()


# --- Python and Node


async def test_pip_installs_the_wheel(release: Path, tmp_path: Path) -> None:
    [wheel] = release.glob(f"segno_server-*_{MACHINE}.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
    shown = run(python, "-m", "pip", "show", "--files", "segno-server").stdout
    assert "../../../bin/segno" in shown
    # Every file is what RECORD says.
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        [record] = [name for name in archive.namelist() if name.endswith("/RECORD")]
        assert {line.split(",")[0] for line in archive.read(record).decode().splitlines()} == set(archive.namelist())
        metadata = archive.read(record.replace("/RECORD", "/METADATA")).decode()
        assert "\nLicense-Expression: Apache-2.0 OR MIT\n" in metadata and "\n\n# segno-server\n" in metadata
    segno = tmp_path / "venv/bin/segno"
    await runs_hello_world([str(segno), "serve", "--data-dir", str(tmp_path / "data")], tmp_path / "log")
    run(python, "-m", "pip", "uninstall", "--yes", "--disable-pip-version-check", "segno-server")
    assert not segno.exists()


@pytest.mark.skipif(not shutil.which("npm"), reason="Node is not installed")
async def test_npm_installs_the_packages(release: Path, manifest: dict[str, Any], tmp_path: Path) -> None:
    version = manifest["version"]
    packages = [release / f"segno-server-linux-{NODE}-{version}.tgz", release / f"segno-server-{version}.tgz"]
    (tmp_path / "package.json").write_text("{}")
    run("npm", "install", "--offline", "--no-audit", "--no-fund", *packages, cwd=tmp_path)
    npx = ["npx", "--no-install", "segno-server"]
    assert run(*npx, "--version", cwd=tmp_path).stdout.startswith(f"segno {version}\n")
    # The launcher has the exit codes of the server.
    done = subprocess.run([*npx, "serve", "--port", "none"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--port" in done.stderr
    launcher = tmp_path / "node_modules/.bin/segno"
    await runs_hello_world([str(launcher), "serve", "--data-dir", str(tmp_path / "data")], tmp_path / "log")
    # And says what is missing.
    shutil.rmtree(tmp_path / f"node_modules/segno-server-linux-{NODE}")
    done = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 69 and f"segno-server-linux-{NODE} is not installed" in done.stderr


# --- image


@pytest.fixture(scope="session")
def image(release: Path, manifest: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """The configuration of the image for this machine, and its unpacked root."""
    layout, root = tmp_path_factory.mktemp("layout"), tmp_path_factory.mktemp("root")
    with tarfile.open(release / f"segno-{manifest['version']}-oci.tar") as archive:
        archive.extractall(layout, filter="data")
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}

    def blob(descriptor: dict[str, Any]) -> bytes:
        algorithm, digest = descriptor["digest"].split(":")
        content = (layout / "blobs" / algorithm / digest).read_bytes()
        assert len(content) == descriptor["size"] and hashlib.sha256(content).hexdigest() == digest
        return content

    [described] = json.loads((layout / "index.json").read_text())["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == f"segno:{manifest['version']}"
    if described["mediaType"].endswith("image.index.v1+json"):
        several = json.loads(blob(described))["manifests"]
        [described] = [one for one in several if one["platform"] == {"os": "linux", "architecture": DEBIAN}]
    found = json.loads(blob(described))
    configuration = json.loads(blob(found["config"]))
    assert (configuration["os"], configuration["architecture"]) == ("linux", DEBIAN)
    for layer, digest in zip(found["layers"], configuration["rootfs"]["diff_ids"], strict=True):
        unpacked = subprocess.run(["gzip", "--decompress", "--stdout"], input=blob(layer), capture_output=True, check=True).stdout
        assert f"sha256:{hashlib.sha256(unpacked).hexdigest()}" == digest
        subprocess.run(["tar", "--extract", "--same-permissions", "--directory", root], input=unpacked, check=True)
    return configuration["config"], root


def serve(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`segno serve` with these variables and no others of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEGNO_")}
    environment |= {"XDG_CONFIG_HOME": "/nonexistent", **variables}
    command = [str(segno_binary()), "serve", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)


DATABASE = "postgres://segno@db.example/segno"


def test_the_settings_of_the_image(image: tuple[dict[str, Any], Path]) -> None:
    settings, root = image
    variables = dict(pair.split("=", 1) for pair in settings["Env"])
    del variables["PATH"]
    # It starts with --insecure, or with certificates and keys, and not without.
    assert serve("--print-config", SEGNO_INSECURE="true", **variables).returncode == 0
    assert serve(**variables).returncode == USAGE
    # The data is in the volume, or in a database.
    assert settings["Volumes"] == {variables["XDG_DATA_HOME"]: {}}
    assert (root / variables["XDG_DATA_HOME"].lstrip("/")).is_dir()
    database = serve("--print-config", SEGNO_INSECURE="true", SEGNO_STORE=DATABASE, **variables)
    assert f'\nstore = "{DATABASE}" ' in database.stdout, database.stderr


CHROOT = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or ""


@pytest.mark.skipif(os.geteuid() != 0 or not CHROOT, reason="chroot needs root")
async def test_the_image_runs(image: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    settings, root = image
    user, group = map(int, settings["User"].split(":"))
    for directory in [root, *root.parents[:3]]:
        directory.chmod(directory.stat().st_mode | 0o055)
    owner = (root / "data").stat()
    assert (owner.st_uid, owner.st_gid, owner.st_mode & 0o777) == (user, group, 0o700)
    variables = dict(pair.split("=", 1) for pair in settings["Env"]) | {"SEGNO_IP": "127.0.0.1", "LANG": "C"}
    command = [CHROOT, f"--userspec={user}:{group}", str(root), *settings["Entrypoint"], *settings["Cmd"]]
    await runs_hello_world(command, tmp_path / "log", env=variables)
    assert (root / "data/segno").stat().st_uid == user
    # From scratch: no shell, nothing but the binary and what it loads.
    names = {path.name for path in root.rglob("*") if path.is_file() and not str(path).startswith(f"{root}/data")}
    assert "segno" in names and all(name == "segno" or re.match(r"(lib|ld-)", name) for name in names), names


# --- crates

CRATES = {"segno-proto": "proto", "segno-proto-json": "proto-json", "segno-sdk-macros": "sdk-macros", "segno-sdk": "sdk"}


def test_the_crates_of_the_sdk_can_be_published(tmp_path: Path) -> None:
    """They are packed, but not compiled: they are the sources that the other tests compile."""
    chosen = [word for name in CRATES for word in ("--package", name)]
    command = ["cargo", "package", "--no-verify", "--allow-dirty", "--target-dir", tmp_path, *chosen]
    told = run(*command, cwd=ROOT).stderr
    warnings = [line for line in told.splitlines() if line.startswith("warning")]
    # Examples and tests that need the repository stay in it.
    assert all(re.match(r"warning: ignoring (example|test) `\w+` as", line) for line in warnings), told
    packed = {path.name: path for path in (tmp_path / "package").glob("*.crate")}
    assert len(packed) == len(CRATES)
    for path in packed.values():
        with tarfile.open(path) as archive:
            members = {member.name.split("/", 1)[1]: member for member in archive.getmembers()}

            def text(name: str) -> str:
                file = archive.extractfile(members[name])
                assert file, name
                return file.read().decode()

            manifest = tomllib.loads(text("Cargo.toml"))
            name, described = manifest["package"]["name"], manifest["package"]
            assert {"README.md", "LICENSE-APACHE", "LICENSE-MIT", "src/lib.rs"} <= members.keys(), name
            assert text("LICENSE-MIT") == (ROOT / "LICENSE-MIT").read_text()
            assert text("README.md").startswith(f"# {name}\n") and described["readme"] == "README.md"
            assert described["documentation"] == f"https://docs.rs/{name}" and described["license"] == "Apache-2.0 OR MIT"
            assert described["description"] and 1 <= len(described["keywords"]) <= 5 and described["categories"]
            # What it needs is in the registry, or published with it.
            needed = [*manifest["dependencies"].items(), *manifest.get("build-dependencies", {}).items()]
            for needs, what in needed:
                assert "path" not in what and what["version"], (name, needs)
                assert not needs.startswith("segno") or needs in CRATES, (name, needs)
            # A file that the source includes is packed with it.
            for member in members:
                if member.endswith(".rs"):
                    for included in re.findall(r'include_(?:str|bytes)!\("(.*?)"\)', text(member)):
                        assert os.path.normpath(os.path.join(os.path.dirname(member), included)) in members, (member, included)
    # A feature that documentation is built with exists, and the one for sabotage is not among them.
    shown = tomllib.loads((ROOT / "crates/sdk/Cargo.toml").read_text())
    built = set(shown["package"]["metadata"]["docs"]["rs"]["features"])
    assert built == shown["features"].keys() - {"sabotage"}


def test_cargo_installs_the_server() -> None:
    """What `cargo install --path crates/cli` installs: one program. That it compiles the other tests show."""
    metadata = json.loads(run("cargo", "metadata", "--no-deps", "--format-version", "1", cwd=ROOT).stdout)
    [server] = [package for package in metadata["packages"] if package["manifest_path"].endswith("/crates/cli/Cargo.toml")]
    assert [target["name"] for target in server["targets"] if "bin" in target["kind"]] == ["segno"]
    assert not server["features"].get("default")
