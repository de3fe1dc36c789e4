"""What deploy/ ships: the unit, the packages, the container's settings, the dashboard and the alerts."""

from __future__ import annotations

import asyncio
import configparser
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.workflowservice.v1 import ListWorkerDeploymentsRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from helpers import SegnoServer, segno_binary

DEPLOY = Path(__file__).parents[2] / "deploy"
USAGE = 64


def serve(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`segno serve` with these variables and no others of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEGNO_")}
    environment |= {"XDG_CONFIG_HOME": "/nonexistent", **variables}
    command = [str(segno_binary()), "serve", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)


# --- systemd


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "systemd/segno.service")
    return parser


DATABASE = "postgres://segno@db.example/segno"


def test_files_and_variables_decide_what_the_unit_runs(tmp_path: Path) -> None:
    service = unit()["Service"]
    # A flag would go before what the operator wrote into the files: --data-dir even excludes a store without a word.
    assert shlex.split(service["ExecStart"]) == ["/usr/bin/segno", "serve"]
    variables = dict(pair.split("=", 1) for pair in service["Environment"].split())
    # The default directory of the data is the one that systemd makes.
    assert f"{variables['XDG_DATA_HOME']}/segno" == f"/var/lib/{service['StateDirectory']}"
    printed = serve("--print-config", **variables)
    assert printed.returncode == 0, printed.stderr
    assert re.search(r'^log-format = "json" ', printed.stdout, re.MULTILINE)
    (tmp_path / "segno.toml").write_text(f'[serve]\nstore = "{DATABASE}"\n')
    for place in {"SEGNO_STORE": DATABASE}, {"SEGNO_CONFIG": str(tmp_path / "segno.toml")}:
        printed = serve("--print-config", **variables, **place)
        assert f'\nstore = "{DATABASE}" ' in printed.stdout, printed.stderr


def test_the_unit_is_started_again_unless_that_is_pointless() -> None:
    # systemd's default gives up after five starts in ten seconds: too early if the database is away for a minute.
    assert unit()["Unit"]["StartLimitIntervalSec"] == "0"
    assert unit()["Service"]["Restart"] == "always"
    pointless = {int(code) for code in unit()["Service"]["RestartPreventExitStatus"].split()}
    assert serve("--port", "none").returncode in pointless
    assert serve("--ip", "0.0.0.0").returncode == USAGE and USAGE in pointless


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "segno.service"
    # It wants to find the program.
    text = (DEPLOY / "systemd/segno.service").read_text().replace("/usr/bin/segno", str(segno_binary()))

    def verified(text: str) -> tuple[int, str]:
        file.write_text(text)
        command = ["systemd-analyze", "verify", "--man=no", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    assert verified(text) == (0, "")
    # And it would say what is wrong.
    assert "'ProtectSistem'" in verified(text.replace("ProtectSystem=", "ProtectSistem="))[1]


# --- packages


@pytest.fixture
def small_binary(tmp_path: Path) -> Path:
    """Does what the binary does, without its size."""
    path = tmp_path / "bin" / "segno"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(str(segno_binary()))} "$@"\n')
    path.chmod(0o755)
    return path


INSTALLED = {
    "usr/bin/segno": 0o755,
    "lib/systemd/system/segno.service": 0o644,
    "usr/share/man/man1/segno.1.gz": 0o644,
    "usr/share/man/man1/segno-workflow-why.1.gz": 0o644,
    "usr/share/bash-completion/completions/segno": 0o644,
    "usr/share/zsh/vendor-completions/_segno": 0o644,
    "usr/share/fish/vendor_completions.d/segno.fish": 0o644,
    "usr/share/doc/segno/examples/segno.toml": 0o644,
    "usr/share/doc/segno/examples/segno.json": 0o644,
    "usr/share/doc/segno/examples/alerts.yml": 0o644,
    "usr/share/doc/segno/LICENSE-MIT": 0o644,
}


def test_the_tarball(tmp_path: Path, small_binary: Path) -> None:
    built = subprocess.run(
        [DEPLOY / "tarball/build.sh", small_binary], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert built.returncode == 0, built.stderr
    with tarfile.open(tmp_path / built.stdout.strip()) as tar:
        members = {member.name: member for member in tar.getmembers()}
        assert {name: members[name].mode for name in INSTALLED if name in members} == INSTALLED
        assert all(member.isfile() and member.uid == 0 for member in members.values())
        page = tar.extractfile("usr/share/man/man1/segno-workflow-why.1.gz")
        assert page and b".TH segno-workflow-why" in gzip.decompress(page.read())


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg is not installed")
def test_the_debian_package(tmp_path: Path, small_binary: Path) -> None:
    built = subprocess.run(
        [DEPLOY / "deb/build.sh", small_binary], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert built.returncode == 0, built.stderr
    [package] = tmp_path.glob("segno_*.deb")
    version = subprocess.run([segno_binary(), "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    field = ["dpkg-deb", "--field", package, "Version", "Package", "Depends"]
    assert subprocess.run(field, capture_output=True, text=True, check=True).stdout.splitlines() == [
        f"Version: {version}",
        "Package: segno",
        "Depends: libc6, libgcc-s1",
    ]
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path / "root"], check=True)
    found = {name: (tmp_path / "root" / name).stat().st_mode & 0o777 for name in INSTALLED}
    assert found == INSTALLED
    for script in "postinst", "prerm", "postrm":
        text = subprocess.run(["dpkg-deb", "--info", package, script], capture_output=True, text=True, check=True).stdout
        assert text == (DEPLOY / "deb" / script).read_text()
        # Without a running systemd, as in an image, they do nothing and do not fail.
        if not Path("/run/systemd/system").exists():
            assert subprocess.run(["sh", "-s", "configure"], input=text, text=True).returncode == 0
    # What is unpacked runs.
    ran = subprocess.run([tmp_path / "root/usr/bin/segno", "--version"], capture_output=True, text=True)
    assert ran.returncode == 0
    # Root's directory is not closed to others.
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    assert listed.startswith("drwxr-xr-x root/root"), listed.splitlines()[0]


# --- container


def test_the_settings_of_the_container() -> None:
    text = (DEPLOY / "container/Containerfile").read_text()
    [line] = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    variables = dict(pair.split("=", 1) for pair in line.split())
    # As its comments say: it starts with --insecure, or with certificates and keys, and not without.
    assert serve("--print-config", SEGNO_INSECURE="true", **variables).returncode == 0
    assert serve(**variables).returncode == USAGE
    # The data is in the volume, or in a database.
    assert f"VOLUME {variables['XDG_DATA_HOME']}\n" in text
    database = serve("--print-config", SEGNO_INSECURE="true", SEGNO_STORE=DATABASE, **variables)
    assert f'\nstore = "{DATABASE}" ' in database.stdout, database.stderr
    assert set(re.findall(r"SEGNO_[A-Z_]+", text)) - {"SEGNO_COMMIT"} <= set(re.findall(r"SEGNO_[A-Z_]+", serve("--help").stdout))


# --- dashboard and alerts


@activity.defn
async def measured_activity() -> None:
    return None


@workflow.defn
class MeasuredWorkflow:
    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(measured_activity, start_to_close_timeout=timedelta(seconds=10))


def expressions() -> dict[str, str]:
    """PromQL of the dashboard and of the alerts, by where it stands."""
    dashboard = json.loads((DEPLOY / "grafana/segno.json").read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    alerts = (DEPLOY / "prometheus/alerts.yml").read_text()
    found |= dict(re.findall(r"- alert: (\w+)\n +expr: (.*)\n", alerts))
    assert len(found) == sum(len(panel["targets"]) for panel in dashboard["panels"]) + alerts.count("- alert:")
    return found


def series(text: str) -> dict[str, set[str]]:
    """Metrics with the labels that they have."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^([a-z_]+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'([a-z_]+)="', labels))
    return found


async def test_metrics_of_the_dashboard_and_the_alerts_exist_with_their_labels(tmp_path: Path) -> None:
    server = SegnoServer(log=tmp_path / "server.log", data_dir=tmp_path / "data")
    try:
        server.start()
        client = await Client.connect(server.address)
        worker = Worker(
            client, task_queue="measured", workflows=[MeasuredWorkflow], activities=[measured_activity],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        async with worker:
            await client.execute_workflow(MeasuredWorkflow.run, id="measured", task_queue="measured")
        # So that a version of workers has figures.
        version = WorkerDeploymentVersion(deployment_name="measured", build_id="1")
        config = WorkerDeploymentConfig(version=version, use_worker_versioning=True)
        config.default_versioning_behavior = VersioningBehavior.PINNED
        options: dict[str, Any] = {"workflows": [MeasuredWorkflow], "workflow_runner": UnsandboxedWorkflowRunner()}
        async with Worker(client, task_queue="versioned", deployment_config=config, **options):
            lister = ListWorkerDeploymentsRequest(namespace="default")
            while not (await client.workflow_service.list_worker_deployments(lister)).worker_deployments:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)
        # So that a queue has a backlog.
        await client.start_workflow(MeasuredWorkflow.run, id="waiting", task_queue="nobody")
        with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=10) as reply:
            known = series(reply.read().decode())
    finally:
        server.kill()
    # Prometheus makes these itself.
    known["up"] = set()
    made = {"instance", "job"}
    wrong = []
    for place, expression in expressions().items():
        names = re.findall(r"\b((?:segno|process)_[a-z_]+|up)\b(?:\{([^}]*)\})?", expression)
        if not names:
            wrong.append(f"{place}: no metric in {expression}")
        labels = {label for _, inside in names for label in re.findall(r'([a-z_]+)(?:=~|!~|!=|=)"', inside)}
        labels |= {label for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for label in group.split(", ")}
        for name, _ in names:
            if name not in known:
                wrong.append(f"{place}: there is no {name}")
            elif missing := labels - known[name] - made:
                wrong.append(f"{place}: {name} has no {missing}, but {known[name]}")
    assert wrong == []


def test_every_alert_is_explained() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", (DEPLOY / "prometheus/alerts.yml").read_text()))
    table = re.findall(r"^\| (`Segno\w+`(?:, `Segno\w+`)*) \|", (DEPLOY.parent / "docs/guides/production.md").read_text(), re.MULTILINE)
    assert alerts == set(re.findall(r"Segno\w+", " ".join(table)))


def test_the_dashboard_is_well_formed() -> None:
    dashboard = json.loads((DEPLOY / "grafana/segno.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(dashboard)))
    assert used <= variables, used - variables
