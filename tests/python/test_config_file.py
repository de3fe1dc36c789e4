"""`segno.toml`: settings of `segno serve` in a file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path

from helpers import SegnoServer, segno_binary

DEPLOYED = Path(__file__).parents[2] / "deploy" / "segno.toml"


def serve(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(segno_binary()), "serve", *arguments]
    environment = {**os.environ, "XDG_CONFIG_HOME": "/nonexistent", **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)


def settings(text: str) -> dict[str, tuple[str, str]]:
    """Values and where they come from."""
    return {name: (value, source) for name, value, source in re.findall(r"^(?:# )?([\w-]+) = (.*?)  # (.*)$", text, re.M)}


def test_a_server_is_set_up_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "segno.toml"
    # Ports are flags as well, which go before the file.
    file.write_text('[serve]\nport = 1\nhttp-port = 1\nlog-format = "json"\nin-memory = true\n')
    server = SegnoServer(log=tmp_path / "server.log", flags=["--config", str(file)])
    server.storage = []
    try:
        server.start()
        assert urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/healthz", timeout=5).status == 200
        assert all(json.loads(line) for line in server.log.read_text().splitlines())
    finally:
        server.kill()


def test_flags_go_before_variables_and_these_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "segno.toml"
    file.write_text('[serve]\nport = 1\nhttp-port = 2\ncache-mib = 3\nin-memory = true\n[profile.x]\naddress = "a:1"\n')
    printed = serve("--print-config", "--config", str(file), "--port", "11", SEGNO_HTTP_PORT="22")
    assert printed.returncode == 0, printed.stderr
    found = settings(printed.stdout)
    assert found["port"] == ("11", "the command line")
    assert found["http-port"] == ("22", "SEGNO_HTTP_PORT")
    assert found["cache-mib"] == ("3", f"{file}, line 4")
    assert found["max-streams"] == ("4096", "default")
    # A flag that excludes a setting of the file goes before it as well.
    printed = serve("--print-config", "--data-dir", "d", SEGNO_CONFIG=str(file))
    assert settings(printed.stdout)["in-memory"] == ("false", "default")
    # What was printed has the same effect.
    again = tmp_path / "again.toml"
    again.write_text(printed.stdout)
    same = serve("--print-config", "--config", str(again))
    assert {name: value for name, (value, _) in settings(same.stdout).items()} == {
        name: value for name, (value, _) in settings(printed.stdout).items()
    }


def test_the_usual_place(tmp_path: Path) -> None:
    (tmp_path / "segno").mkdir()
    (tmp_path / "segno" / "segno.toml").write_text("[serve]\nport = 5\n")
    assert settings(serve("--print-config", XDG_CONFIG_HOME=str(tmp_path)).stdout)["port"][0] == "5"
    # Clients that read their profiles from the same file are not disturbed.
    listed = subprocess.run(
        [str(segno_binary()), "workflow", "list", "--address", "127.0.0.1:1", "--command-timeout", "2s"],
        capture_output=True, text=True, timeout=30, env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
    )
    assert "not understood" not in listed.stderr


def test_what_is_wrong_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "segno.toml"
    # 2: what the file says is no command line; 64: the file itself is not understood.
    for text, (code, expected) in {
        "[serve]\nprot = 1\n": (64, 'line 2: "prot" is not a setting; did you mean "port"?'),
        "[serve]\n\nport = 'x'\n": (2, f"--port is line 3 of {file}"),
        "port = 1\n": (64, "it belongs below [serve]"),
        "[serve]\nport = \n": (64, "line 2: "),
        "[serve]\ntls-cert = 'c'\n": (2, f"--tls-cert is line 2 of {file}"),
    }.items():
        file.write_text(text)
        refused = serve("--config", str(file), "--in-memory")
        assert refused.returncode == code and expected in refused.stderr, refused.stderr
    missing = serve("--config", str(tmp_path / "no.toml"))
    assert missing.returncode != 0 and "cannot be read" in missing.stderr


def test_the_example_is_understood() -> None:
    """Also with every line of it that is commented out."""
    assert serve("--print-config", "--config", str(DEPLOYED)).returncode == 0
    names = set(re.findall(r"^#? ?([a-z][\w-]*) = ", DEPLOYED.read_text(), re.M))
    assert names <= set(re.findall(r"^(?:# )?([\w-]+) (?:=|is not set)", serve("--print-config").stdout, re.M)), names
