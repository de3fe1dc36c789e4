"""A server in memory with something to look at, and a browser."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest
from playwright.sync_api import Error, sync_playwright

import world

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("SEGNO_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Server:
    """A server of its own, ended with the tests."""

    def __init__(self, log, *flags):
        binary = os.environ.get("SEGNO_BIN") or str(ROOT / "target/debug/segno")
        self.grpc, self.http = free_ports(2)
        self.output = open(log, "w+")
        command = [binary, "serve", "--in-memory", "--port", str(self.grpc), "--http-port", str(self.http), *flags]
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.grpc), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, pathlib.Path(log).read_text()
                time.sleep(0.05)
        raise AssertionError("the server did not start")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http}"

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server") / "log", "--workflow-pause")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def living(server):
    """The server with workers and workflows; calls run on the loop of a thread."""
    running = world.World(f"127.0.0.1:{server.grpc}")
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    assert running.ready.wait(60), "the workers did not start"
    if running.failed:
        raise running.failed
    yield running
    running.stop()
    thread.join(20)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        # As root there is no sandbox of namespaces to be had.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe():
    """The accessibility checker, which the step `browser` installs."""
    place = os.environ.get("SEGNO_AXE") or str(ROOT / "target/browser/node_modules/axe-core/axe.min.js")
    return pathlib.Path(place).read_text()


class Tab:
    """A page that notes what the console says."""

    def __init__(self, context, url):
        self.page = context.new_page()
        self.url = url
        self.errors = []
        # Browsers note answers of 400 and more; set by tests that provoke them.
        self.is_refused = False
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.errors.append(said.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, path):
        answer = self.page.goto(self.url + path, wait_until="load")
        return answer

    def until(self, expression, seconds=10):
        """Waits until an expression is true. Playwright's own way needs `eval`, which the pages forbid."""
        end = time.monotonic() + seconds
        while not self.holds(expression):
            assert time.monotonic() < end, f"not in time: {expression}"
            time.sleep(0.05)

    def holds(self, expression):
        """Whether an expression is true; not while the page gives way to another one."""
        try:
            return self.page.evaluate(expression)
        except Error as error:
            if "Execution context was destroyed" in str(error):
                return False
            raise

    def quiet(self):
        # A stream that ends with the page is no error of the page.
        left = [text for text in self.errors if not re.search(r"ERR_ABORTED|ERR_NETWORK_CHANGED", text)]
        if self.is_refused:
            left = [text for text in left if not text.startswith("Failed to load resource: the server responded")]
        assert left == [], left


@pytest.fixture
def tab(browser, server, living):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(10_000)
    tab = Tab(context, server.url)
    yield tab
    context.close()
    tab.quiet()
