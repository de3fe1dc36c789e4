"""The page of a cluster: nodes on a PostgreSQL of their own."""

import importlib.util
import pathlib
import sys

import pytest

from conftest import Tab

PYTHON = pathlib.Path(__file__).resolve().parents[1] / "python"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes. Their helpers are those of the tests in Python, whose directory also has a conftest of its own."""
    sys.path.append(str(PYTHON))
    try:
        spec = importlib.util.spec_from_file_location("nodes", PYTHON / "nodes.py")
        nodes = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(nodes)
    finally:
        sys.path.remove(str(PYTHON))
    cluster = nodes.Cluster(tmp_path_factory.mktemp("cluster"), size=2, lease=30)
    try:
        cluster.start()
        cluster.wait_balanced()
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.timeout(180)
def test_nodes_are_shown_with_shards_and_links(browser, cluster):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    here, there = cluster.live()
    tab = Tab(context, f"http://127.0.0.1:{here.http_port}")
    page = tab.page
    tab.open("/ui/default/cluster")
    page.wait_for_selector("#cluster table tbody tr >> nth=1")
    rows = [row.inner_text() for row in page.locator("#cluster table tbody tr").all()]
    assert len(rows) == 2
    mine = [row for row in rows if "this node" in row]
    assert len(mine) == 1 and "open" not in mine[0]
    other = next(row for row in rows if "this node" not in row)
    assert "open" in other
    shards = [int(row.split()[-1]) for row in rows]
    assert sum(shards) == 1024 and min(shards) > 400, rows
    assert "Without owner" in page.inner_text("#cluster")
    # The page follows: the other node ends, and its shards come here.
    assert there.terminate(timeout=40) == 0
    tab.until("document.querySelectorAll('#cluster table tbody tr').length === 1", 60)
    tab.until("document.querySelector('#cluster table tbody tr').innerText.includes('1024')", 60)
    assert tab.errors == []
    context.close()
