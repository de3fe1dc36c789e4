"""Segno and Temporal on the same PostgreSQL: one-activity workflows, alternating, and what each costs.

    python3 bench/postgres/main.py --segno target/dist/segno --harness target/dist/segno-harness \
        --temporal-server PATH --temporal-sql-tool PATH [--rounds 5] [--seconds 20]

starts a private PostgreSQL (15 or newer; `initdb` and `postgres` in the path or under /usr/lib/postgresql), one database for
each server, and lets `segno-harness load` run the same workload against both, several times over. CPU is read from /proc: of the
server, and of PostgreSQL with all its processes, those that have ended included. `--nodes 1,2,3,4` compares clusters of Segno
of that size instead, each node with clients and workers of its own: of a queue for each node, whose workers are at that node alone, or
with `--one-queue` of one queue, which has workers at every node; `--rate 300` offers all sizes the same load. `--takeover 100000` kills one of three nodes with that many open workflows and waits until
every shard answers again.

Temporal's server is built from its Go modules, which needs Go:

    go install go.temporal.io/server/cmd/server@v1.32.0 go.temporal.io/server/cmd/tools/sql@v1.32.0
"""

import argparse
import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """Below 32768: Temporal's table of members has no room for higher ones."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as it:
            if it.connect_ex(("127.0.0.1", port)) != 0:
                return port


def stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_of(pid: int, with_ended: bool = False) -> float:
    """Seconds of CPU of a process; with those of its children that have ended. Of one that is gone, none."""
    try:
        fields = stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(field) for field in fields[11 : 15 if with_ended else 13]) / TICK


def children(pid: int) -> list[int]:
    found = []
    for entry in glob.glob("/proc/[0-9]*"):
        try:
            if int(stat(int(entry[6:]))[1]) == pid:
                found.append(int(entry[6:]))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def wait_for(what: str, ready, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if ready():
            return
        time.sleep(0.05)
    raise SystemExit(f"{what}: not within {seconds} s")


def listens(port: int) -> bool:
    with socket.socket() as it:
        return it.connect_ex(("127.0.0.1", port)) == 0


class Postgres:
    """A private PostgreSQL in a directory of its own."""

    def __init__(self, place: Path, settings: list[str]):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
        self.bin = Path(found[-1]) if found else Path(shutil.which("postgres") or "").parent
        self.place, self.port = place, free_port()
        place.chmod(0o755)
        self.user = "postgres" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(place, self.user)
        self.run("initdb", "-U", "bench", "-A", "trust", "--encoding=UTF8", "--locale=C", "-D", str(place / "data"))
        words = [str(self.bin / "postgres"), "-D", str(place / "data"), "-k", str(place), "-p", str(self.port)]
        for setting in ["listen_addresses=127.0.0.1", "max_connections=300", *settings]:
            words += ["-c", setting]
        log = open(place / "postgres.log", "w")
        self.process = subprocess.Popen(words, stderr=log, stdout=log, user=self.user, cwd=place)
        wait_for("PostgreSQL", lambda: self.sql("postgres", "SELECT 1", check=False) is not None)

    def run(self, program: str, *words: str) -> None:
        subprocess.run([str(self.bin / program), *words], user=self.user, cwd=self.place, check=True, capture_output=True)

    def sql(self, database: str, text: str, check: bool = True) -> str | None:
        words = [str(self.bin / "psql"), "-XqAt", "-h", "127.0.0.1", "-p", str(self.port), "-U", "bench", "-d", database]
        done = subprocess.run([*words, "-c", text], capture_output=True, text=True, check=check)
        return done.stdout.strip() if done.returncode == 0 else None

    def cpu(self) -> float:
        return cpu_of(self.process.pid, with_ended=True) + sum(cpu_of(child) for child in children(self.process.pid))

    def wal(self) -> float:
        return float(self.sql("postgres", "SELECT pg_current_wal_insert_lsn() - '0/0'"))

    def url(self, database: str) -> str:
        return f"postgres://bench@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        # Fast: clients that are still connected are disconnected.
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


class Segno:
    """A node on PostgreSQL."""

    def __init__(self, binary: str, postgres: Postgres, database: str, name: str = "a"):
        self.port, self.http, self.name = free_port(), free_port(), name
        words = ["serve", "--store", postgres.url(database), "--node-name", name, "--port", str(self.port)]
        words += ["--http-port", str(self.http), "--node-listen", f"127.0.0.1:{free_port()}", "--log-level", "warn"]
        self.process = subprocess.Popen([binary, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for("segno", lambda: self.get("/healthz") == "ok\n")

    def get(self, path: str) -> str:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=5).read().decode()
        except OSError:
            return ""

    def metric(self, name: str) -> float:
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics"), re.M)
        return sum(map(float, found))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class Temporal:
    """Temporal's server, all services in one process, on PostgreSQL."""

    def __init__(self, server: str, tool: str, postgres: Postgres, place: Path, shards: int):
        self.port = free_port()
        for database, schema in (("temporal", "temporal"), ("temporal_visibility", "visibility")):
            shared = [tool, "--plugin", "postgres12", "--ep", "127.0.0.1", "-p", str(postgres.port), "-u", "bench"]
            shared += ["--db", f"{database}_{shards}"]
            run = lambda *words: subprocess.run([*shared, *words], check=True, capture_output=True)
            run("create-database")
            run("setup-schema", "-v", "0.0")
            run("update-schema", "--schema-name", f"postgresql/v12/{schema}")
        store = lambda name: {"sql": {
            "pluginName": "postgres12", "databaseName": f"{name}_{shards}", "connectAddr": f"127.0.0.1:{postgres.port}",
            "connectProtocol": "tcp", "user": "bench", "password": "", "maxConns": 20, "maxIdleConns": 20, "maxConnLifetime": "1h",
        }}
        rpc = lambda port: {"rpc": {"grpcPort": port, "membershipPort": free_port(), "bindOnLocalHost": True}}
        place.mkdir()
        (place / "dynamic.yaml").write_text("\n".join(
            f"{key}:\n  - value: 1000000" for key in ("frontend.rps", "frontend.namespaceRPS", "frontend.namespaceRPS.visibility")
        ))
        (place / "bench.yaml").write_text(json.dumps({
            "log": {"stdout": True, "level": "error"},
            "persistence": {
                "defaultStore": "default", "visibilityStore": "visibility", "numHistoryShards": shards,
                "datastores": {"default": store("temporal"), "visibility": store("temporal_visibility")},
            },
            "global": {"membership": {"maxJoinDuration": "30s", "broadcastAddress": "127.0.0.1"}},
            "services": {name: rpc(self.port if name == "frontend" else free_port())
                         for name in ("frontend", "matching", "history", "worker")},
            "clusterMetadata": {
                "enableGlobalNamespace": False, "failoverVersionIncrement": 10, "masterClusterName": "active",
                "currentClusterName": "active",
                "clusterInformation": {"active": {"enabled": True, "initialFailoverVersion": 1, "rpcName": "frontend",
                                                  "rpcAddress": f"127.0.0.1:{self.port}"}},
            },
            "dcRedirectionPolicy": {"policy": "noop"},
            "publicClient": {"hostPort": f"127.0.0.1:{self.port}"},
            "dynamicConfigClient": {"filepath": str(place / "dynamic.yaml"), "pollInterval": "60s"},
        }))
        log = open(place / "temporal.log", "w")
        words = [server, "--root", str(place), "--config", ".", "--env", "bench", "start"]
        self.process = subprocess.Popen(words, stdout=log, stderr=log)
        wait_for("temporal", lambda: listens(self.port))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def load(harness: str, port: int, *words: str) -> str:
    done = subprocess.run([harness, "load", "--port", str(port), *words], capture_output=True, text=True)
    if done.returncode != 0 or " x " in done.stdout:
        raise SystemExit(f"the load failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def rate_and_p50(text: str) -> tuple[float, float]:
    rate = re.search(r"([\d.,]+)/s", text)
    p50 = re.search(r"p50 ([\d.]+) ms", text)
    if not rate or not p50:
        raise SystemExit(f"not understood: {text}")
    return float(rate[1].replace(",", "")), float(p50[1])


def measure(options, who, postgres, count, concurrency) -> dict[str, float]:
    cpu, database, wal = cpu_of(who.process.pid), postgres.cpu(), postgres.wal()
    rate, p50 = rate_and_p50(load(options.harness, who.port, "--count", str(count), "--concurrency", str(concurrency),
                                  "--pollers", str(options.pollers)))
    each = lambda before, after, scale: (after - before) * scale / count
    return {
        "rate/s": rate,
        "p50 ms": p50,
        "server CPU ms": each(cpu, cpu_of(who.process.pid), 1e3),
        "database CPU ms": each(database, postgres.cpu(), 1e3),
        "WAL KB": each(wal, postgres.wal(), 1e-3),
    }


def show(name: str, rounds: list[dict[str, float]]) -> dict[str, float]:
    medians = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    print(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in medians.items()), flush=True)
    return medians


def versus(options, postgres, place) -> None:
    postgres.sql("postgres", "CREATE DATABASE segno")
    contenders = {"segno": Segno(options.segno, postgres, "segno")}
    for shards in options.shards if options.temporal_server else []:
        contenders[f"temporal, {shards} shards"] = Temporal(
            options.temporal_server, options.temporal_sql_tool, postgres, place / f"temporal-{shards}", shards)
        words = ["operator", "namespace", "create", "--namespace", "default", "--retention", "1d"]
        address = f"127.0.0.1:{contenders[f'temporal, {shards} shards'].port}"
        wait_for("a namespace", lambda: subprocess.run(
            [options.temporal, *words, "--address", address], capture_output=True).returncode == 0)
        time.sleep(12)  # its caches of namespaces
    figures: dict[str, list] = {}
    for number in range(options.rounds + 1):
        for name, who in contenders.items():
            slow = name != "segno"
            many = measure(options, who, postgres, options.slow_count if slow else options.count, options.concurrency)
            one = measure(options, who, postgres, 50 if slow else 300, 1)
            if number:  # the first round warms up
                figures.setdefault(f"{name}, {options.concurrency} at a time", []).append(many)
                figures.setdefault(f"{name}, one at a time", []).append(one)
    medians = {name: show(name, rounds) for name, rounds in figures.items()}
    ours = medians[f"segno, {options.concurrency} at a time"]
    for name, theirs in medians.items():
        if name.startswith("temporal") and "one at" not in name:
            print(f"{name}: Segno has {ours['rate/s'] / theirs['rate/s']:.1f} times the rate")
    for who in contenders.values():
        who.stop()


def cluster_sizes(options, postgres) -> None:
    """A size may be named several times: its rounds are then taken together, from hours that are alike for all sizes."""
    figures, cpu_each = {}, "nodes' CPU ms"
    for turn, size in enumerate(options.nodes):
        database = f"nodes_{turn}"
        postgres.sql("postgres", f"CREATE DATABASE {database}")
        nodes = [Segno(options.segno, postgres, database, f"n{number}") for number in range(size)]
        wait_for("the nodes", lambda: all(
            len(json.loads(node.get("/cluster"))["nodes"]) == size and json.loads(node.get("/cluster"))["shards_served_here"] > 0
            for node in nodes))
        time.sleep(3)
        # The clients of one process each, so that all nodes have some.
        def drive(count):
            rate = ["--rate", str(options.rate / size)] if options.rate else []
            queue = ["--queue", "bench"] if options.one_queue else []
            loads = [subprocess.Popen(
                [options.harness, "load", "--port", str(node.port), "--count", str(count // size), "--concurrency",
                 str(max(1, options.concurrency // size)), "--pollers", str(options.pollers), *rate, *queue],
                stdout=subprocess.PIPE, text=True) for node in nodes]
            texts = [one.communicate()[0] for one in loads]
            if any(one.returncode for one in loads) or any(" x " in text for text in texts):
                raise SystemExit("the load failed:\n" + "\n".join(texts))
        drive(options.count // 4)
        rounds = figures.setdefault(size, [])
        for _ in range(options.rounds):
            cpu, database_cpu = sum(cpu_of(node.process.pid) for node in nodes), postgres.cpu()
            total = lambda name: sum(node.metric(name) for node in nodes)
            counted = {"frames": "segno_cluster_link_frames_sent_total", "writes": "segno_cluster_link_writes_total",
                       "met": "segno_tasks_met_total", "commits": "segno_commits_total", "groups": "segno_syncs_total"}
            before = {what: total(name) for what, name in counted.items()}
            begun = time.monotonic()
            drive(options.count)
            done = options.count // size * size
            rounds.append({
                "rate/s": done / (time.monotonic() - begun),
                cpu_each: (sum(cpu_of(node.process.pid) for node in nodes) - cpu) * 1e3 / done,
                "database CPU ms": (postgres.cpu() - database_cpu) * 1e3 / done,
                **{what: (total(name) - before[what]) / done for what, name in counted.items()},
            })
            print(f"{size} nodes: {rounds[-1][cpu_each]:.3f} ms", flush=True)
        for node in nodes:
            node.stop()
    first = None
    for size, rounds in figures.items():
        medians = show(f"{size} nodes", rounds)
        first = first or medians[cpu_each]
        print(f"{size} nodes: {medians[cpu_each] / first:.2f} times the CPU of {options.nodes[0]}")


def takeover(options, postgres) -> None:
    postgres.sql("postgres", "CREATE DATABASE takeover")
    nodes = [Segno(options.segno, postgres, "takeover", f"n{number}") for number in range(3)]
    time.sleep(5)
    print(f"filling with {options.takeover} open workflows", flush=True)
    load(options.harness, nodes[0].port, "--workload", "start-only", "--count", str(options.takeover), "--concurrency", "64")
    view = lambda node: json.loads(node.get("/cluster") or "{}")
    owned = view(nodes[2])["shards_served_here"]
    killed = time.monotonic()
    nodes[2].process.kill()
    wait_for("the other two", lambda: sum(view(node)["shards_served_here"] for node in nodes[:2]) == 1024, 60)
    print(f"take-over: {owned} shards of a killed node were served after {time.monotonic() - killed:.2f} s, "
          f"{options.takeover} open workflows", flush=True)
    rate, p50 = rate_and_p50(load(options.harness, nodes[0].port, "--count", "300", "--concurrency", "8"))
    print(f"then {rate:.0f} one-activity workflows/s, p50 {p50:.1f} ms")
    for node in nodes[:2]:
        node.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--segno", default="target/dist/segno")
    parser.add_argument("--harness", default="target/dist/segno-harness")
    parser.add_argument("--temporal-server")
    parser.add_argument("--temporal-sql-tool")
    parser.add_argument("--temporal", default="target/venv/bin/temporal", help="Temporal's CLI")
    parser.add_argument("--shards", type=lambda text: [int(part) for part in text.split(",")], default=[4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--slow-count", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--pollers", type=int, default=16, help="polls of each kind that a driver has open: so many tasks it works on at a time")
    parser.add_argument("--nodes", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--rate", type=float, help="with --nodes: so many workflows are due each second, instead of as many as go")
    parser.add_argument("--one-queue", action="store_true", help="with --nodes: one queue, with workers at every node")
    parser.add_argument("--takeover", type=int)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="segno-bench-"))
    postgres = Postgres(place, [])
    try:
        if options.nodes:
            cluster_sizes(options, postgres)
        elif options.takeover:
            takeover(options, postgres)
        else:
            versus(options, postgres, place)
    finally:
        postgres.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
