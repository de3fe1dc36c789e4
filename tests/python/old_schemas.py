"""Files of earlier schemas, made from one of today: each step takes back one migration of crates/store-sqlite/src/schema.rs.

What a step takes back is written as the version before wrote it: history that stands in a run's row becomes history rows, checksums
that were not there are dropped. States of runs stay as today's server wrote them, since they have a format of their own.
"""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

NEWEST = 6


def _to_5(file: sqlite3.Connection) -> None:
    """Without scripts. Documents are dropped as well: what is in them is younger than this schema."""
    file.executescript("DROP TABLE script_states; DROP TABLE documents;")


def _to_4(file: sqlite3.Connection) -> None:
    """Without checksums of pointers and lists, under the old names."""
    for table in ("current", "attributes", "visibility"):
        file.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
    file.execute("ALTER TABLE pending_facts RENAME TO queue")
    file.execute("ALTER TABLE runs RENAME COLUMN recent_history TO tail")


def _to_3(file: sqlite3.Connection) -> None:
    """What waits to be listed is in `facts`, which is empty here: everything is listed. What is not is a test of the store."""
    unlisted = file.execute("SELECT count(*) FROM runs WHERE run_key NOT IN (SELECT run_key FROM visibility)")
    assert unlisted.fetchone()[0] == 0, "ask for a list before the server is stopped"
    columns = [row for row in file.execute("PRAGMA table_info(visibility)")]
    names = ", ".join(
        f"{row[1]} {row[2]}{' NOT NULL' if row[3] else ''}" for row in columns if row[1] != "run_key"
    )
    file.execute("DROP TABLE queue")
    file.execute(
        "CREATE TABLE facts (position INTEGER PRIMARY KEY, run_key INTEGER NOT NULL, is_new INTEGER NOT NULL, "
        f"{names}) STRICT"
    )


def _to_2(file: sqlite3.Connection) -> None:
    """All history is in history rows."""
    for key, tail in file.execute("SELECT run_key, tail FROM runs").fetchall():
        while tail:
            first, last, checksum, length = struct.unpack_from("<IIII", tail)
            events, tail = tail[16 : 16 + length], tail[16 + length :]
            row = (key << 20 | first, last, checksum, events)
            file.execute("INSERT INTO history (id, last_event_id, checksum, events) VALUES (?, ?, ?, ?)", row)
    file.execute("DROP TABLE facts")
    file.execute("ALTER TABLE runs DROP COLUMN tail")
    file.execute("ALTER TABLE runs DROP COLUMN last_event")


def _to_1(file: sqlite3.Connection) -> None:
    """Without lists."""
    file.executescript("DROP TABLE visibility; DROP TABLE attributes; DROP TABLE status_counts;")
    file.execute("DELETE FROM meta WHERE key = 'unlisted_until'")


STEPS = {5: _to_5, 4: _to_4, 3: _to_3, 2: _to_2, 1: _to_1}


def take_back(database: Path, schema: int) -> None:
    """Turns a file of today, which no server uses, into one of this schema."""
    file = sqlite3.connect(database)
    found = file.execute("PRAGMA user_version").fetchone()[0]
    assert found == NEWEST, f"there is a schema {found}: add the step that takes it back"
    for step in range(NEWEST - 1, schema - 1, -1):
        STEPS[step](file)
    file.execute(f"PRAGMA user_version = {schema}")
    file.commit()
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()


def schema_of(database: Path) -> int:
    """The schema number of a file."""
    file = sqlite3.connect(database)
    try:
        return file.execute("PRAGMA user_version").fetchone()[0]
    finally:
        file.close()
