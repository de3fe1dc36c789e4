"""The pictures of docs/guides/web.md: `python pictures.py DIRECTORY`."""

import pathlib
import sys
import tempfile
import threading

from playwright.sync_api import sync_playwright

import conftest
import world

PICTURES = [
    ("workflows", "/ui/default/workflows", "light", 860),
    ("run", "/ui/default/workflows/order-1003", "light", 860),
    ("waiting", "/ui/default/workflows/order-2002", "dark", 760),
    ("schedule", "/ui/default/schedules/nightly-report", "light", 820),
    ("deployment", "/ui/default/deployments/shipping", "light", 760),
]


def main(place):
    with tempfile.TemporaryDirectory() as directory:
        server = conftest.Server(pathlib.Path(directory) / "log", "--workflow-pause")
        living = world.World(f"127.0.0.1:{server.grpc}")
        thread = threading.Thread(target=living.run, daemon=True)
        thread.start()
        assert living.ready.wait(60) and not living.failed, living.failed
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=conftest.CHROMIUM, args=["--no-sandbox"])
            for name, path, theme, height in PICTURES:
                size = {"width": 1280, "height": height}
                context = browser.new_context(viewport=size, color_scheme=theme, locale="en-GB", timezone_id="UTC")
                page = context.new_page()
                page.goto(server.url + path)
                page.wait_for_selector("text=Live")
                page.wait_for_timeout(1500)
                page.screenshot(path=f"{place}/{name}.png")
                context.close()
            login(browser, pathlib.Path(directory), place)
            browser.close()
        living.stop()
        thread.join(20)
        server.stop()


def login(browser, directory, place):
    """What a server that wants to know who calls shows first."""
    server = conftest.Server(directory / "login-log", "--auth", "--admin-key-file", str(directory / "admin.key"))
    context = browser.new_context(viewport={"width": 1280, "height": 480}, locale="en-GB", timezone_id="UTC")
    page = context.new_page()
    page.goto(server.url + "/ui/default/workflows")
    page.wait_for_timeout(500)
    page.screenshot(path=f"{place}/login.png")
    context.close()
    server.stop()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
