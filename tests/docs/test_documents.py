"""Every page with marked commands works as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import Page, pages
from runner import Runner, segno_binary

PAGES = [page for page in pages() if page.runs]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: Page, tmp_path: Path) -> None:
    if not segno_binary().exists():
        pytest.exit(f"no server: build {segno_binary()}", returncode=3)
    place = tmp_path / "page"
    place.mkdir()
    runner = Runner(page, place)
    try:
        runner.run()
    finally:
        runner.close()


def test_every_command_is_marked() -> None:
    assert [problem for page in pages() for problem in page.unmarked] == []
