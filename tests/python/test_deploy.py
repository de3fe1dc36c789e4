"""What deploy/ ships: the unit, the compose file, the chart, the workflow of releases, the dashboard and the alerts.

The packages are in test_packages.py.
"""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio import activity, workflow
from temporalio.api.workflowservice.v1 import ListWorkerDeploymentsRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

import chart
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


# --- compose file, chart, workflow of releases


def known_variables() -> set[str]:
    return set(re.findall(r"SEGNO_[A-Z_]+", serve("--help").stdout))


def test_the_nodes_of_the_compose_file_start(tmp_path: Path) -> None:
    composed = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    nodes = {name: service for name, service in composed["services"].items() if name != "database"}
    assert sorted(nodes) == ["a", "b", "c"]
    ports = [port for node in nodes.values() for port in node["ports"]]
    assert len(set(ports)) == 6 and all(port.startswith("127.0.0.1:") for port in ports)
    for name, node in nodes.items():
        variables = node["environment"]
        assert set(variables) <= known_variables()
        assert variables["SEGNO_NODE_ADDRESS"] == f"{name}:{variables['SEGNO_NODE_LISTEN'].split(':')[1]}"
        store = re.sub(r"\$\{SEGNO_DATABASE_PASSWORD:\?[^}]*\}", "secret", variables["SEGNO_STORE"])
        printed = serve("--print-config", **variables | {"SEGNO_STORE": store, "SEGNO_IP": "0.0.0.0"})
        assert f'\nstore = "postgres://segno:' in printed.stdout, printed.stderr
        assert f'\nnode-name = "{name}" ' in printed.stdout
        # The host of the URL is the service of the database, with its user and database.
        assert re.search(r"@(\w+):5432/(\w+)\?", store).groups() == ("database", "segno")  # type: ignore[union-attr]
    database = composed["services"]["database"]
    assert set(database["volumes"][0].split(":")[:1]) == set(composed["volumes"])
    assert database["environment"] | {"POSTGRES_PASSWORD": ""} == {
        "POSTGRES_USER": "segno", "POSTGRES_DB": "segno", "POSTGRES_PASSWORD": "",
    }


CHART = DEPLOY / "helm/segno"
SECURE = {"store": {"secret": "db"}, "tls": {"secret": "tls"}, "auth": {"secret": "auth"}}
OPEN = {"store": {"secret": "db"}, "insecure": True}


def environment(rendered: dict[str, list[Any]]) -> dict[str, Any]:
    [stateful] = rendered["statefulset.yaml"]
    [container] = stateful["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", "from elsewhere") for each in container["env"]}


@pytest.mark.parametrize("values", [SECURE, OPEN, SECURE | {"settings": {"SEGNO_CACHE_MIB": 256}, "replicas": 5}])
def test_the_chart(values: dict[str, Any]) -> None:
    rendered = chart.render(CHART, values, name="orders", namespace="prod")
    [stateful], [clients, nodes], [budget] = (
        rendered[name] for name in ("statefulset.yaml", "services.yaml", "disruption.yaml")
    )
    pod = stateful["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert stateful["spec"]["replicas"] == values.get("replicas", 3)
    # Every selector finds the pods.
    selectors = [stateful["spec"]["selector"]["matchLabels"], clients["spec"]["selector"], nodes["spec"]["selector"]]
    for selector in [*selectors, budget["spec"]["selector"]["matchLabels"]]:
        assert selector.items() <= pod["metadata"]["labels"].items() and selector
    # Each pod has a name of its own, at which the others find it, also before it is ready.
    assert stateful["spec"]["serviceName"] == nodes["metadata"]["name"] == "orders-nodes"
    assert nodes["spec"]["clusterIP"] == "None" and nodes["spec"]["publishNotReadyAddresses"] is True
    variables = environment(rendered)
    assert variables["SEGNO_NODE_ADDRESS"] == "$(SEGNO_NODE_NAME).orders-nodes.prod.svc:7234"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for service in (clients, nodes) for port in service["spec"]["ports"]} == set(ports)
    assert variables["SEGNO_NODE_LISTEN"].endswith(f":{ports['nodes']}")
    # The server knows each variable, and accepts their values.
    assert set(variables) <= known_variables()
    here = {name: value for name, value in variables.items() if value != "from elsewhere"}
    given = {"SEGNO_IP": "0.0.0.0", "SEGNO_STORE": DATABASE, "SEGNO_NODE_NAME": "orders-0"}
    printed = serve("--print-config", **here | given)
    assert printed.returncode == 0, printed.stderr
    secure = "tls" in values
    assert ("SEGNO_TLS_CERT" in variables, "SEGNO_INSECURE" in variables) == (secure, not secure)
    # What is mounted is there, and what is named is mounted.
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == volumes == ({"tmp", "tls", "auth"} if secure else {"tmp"})
    files = [value for value in here.values() if value.startswith("/")]
    assert all(any(file.startswith(f"{path}/") for path in mounts.values()) for file in files)
    assert container["readinessProbe"]["httpGet"]["scheme"] == ("HTTPS" if secure else "HTTP")
    if "settings" in values:
        assert "cache-mib = 256 " in printed.stdout


@pytest.mark.parametrize(
    ("values", "reason"),
    [({}, "store.secret must name"), ({"store": {"secret": "db"}, "tls": {"secret": "tls"}}, "tls.secret and auth.secret are needed")],
)
def test_the_chart_refuses_what_the_server_would(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(chart.Failed, match=reason):
        chart.render(CHART, values)


@pytest.mark.skipif(not shutil.which("helm"), reason="Helm is not installed")
@pytest.mark.parametrize("values", [SECURE, OPEN, SECURE | {"settings": {"SEGNO_CACHE_MIB": 256}}])
def test_helm_renders_the_chart_likewise(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    for command in ["helm", "lint", "--strict"], ["helm", "template", "orders", "--namespace", "prod"]:
        done = subprocess.run([*command, str(CHART), "--values", str(tmp_path / "values.yaml")], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    by_helm = [document for document in yaml.safe_load_all(done.stdout) if document]
    ours = [document for documents in chart.render(CHART, values, name="orders", namespace="prod").values() for document in documents]
    key = lambda document: (document["kind"], document["metadata"]["name"])  # noqa: E731
    assert sorted(by_helm, key=key) == sorted(ours, key=key)


def test_the_workflow_of_releases_calls_one_command() -> None:
    flow = yaml.safe_load((DEPLOY.parent / ".github/workflows/release.yml").read_text())
    steps = [step["run"] for job in flow["jobs"].values() for step in job["steps"] if "run" in step]
    built = [step for step in steps if step.startswith("cargo ")]
    assert [step.split(" --")[0] for step in built] == ["cargo xtask dist"] * 2
    # The rest installs what a build needs, and carries files.
    assert {step.split()[0] for step in steps} - {"cargo"} == {"sudo", "rustup", "for", "gh"}
    # Its targets are those that the command knows, its options those that the command has.
    source = (DEPLOY.parent / "xtask/src/dist.rs").read_text()
    assert all(f'"{each["target"]}"' in source for each in flow["jobs"]["build"]["strategy"]["matrix"]["include"])
    assert all(f'("{option}", Some(path))' in source for step in built for option in re.findall(r"--[a-z]+", step))
    assert "SEGNO_SIGNING_KEY" in flow["jobs"]["release"]["steps"][3]["env"]


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
