"""A program with known durability, to test the power-cut shim on: SQLite commits, each acknowledged on stdout.

    probe.py write DIR JOURNAL_MODE SYNCHRONOUS   commits rows 1, 2, 3, ... and prints each number once committed
    probe.py read DIR                             prints how many rows are there after checking they have no gap
"""

import os
import sqlite3
import sys


def write(directory: str, journal_mode: str, synchronous: str) -> None:
    db = sqlite3.connect(os.path.join(directory, "probe.db"), isolation_level=None)
    db.execute(f"PRAGMA journal_mode={journal_mode}")
    db.execute(f"PRAGMA synchronous={synchronous}")
    # Where the log must hold, many checkpoints, to cut into them; where it need not, few, as they sync it.
    db.execute(f"PRAGMA wal_autocheckpoint={20 if synchronous == 'FULL' else 1000}")
    db.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body BLOB)")
    (row,) = db.execute("SELECT coalesce(max(id), 0) FROM rows").fetchone()
    while True:
        row += 1
        db.execute("INSERT INTO rows VALUES (?, ?)", (row, os.urandom(row * 37 % 3000)))
        os.write(1, b"%d\n" % row)


def read(directory: str) -> None:
    db = sqlite3.connect(os.path.join(directory, "probe.db"))
    (verdict,) = db.execute("PRAGMA integrity_check").fetchone()
    if verdict != "ok":
        sys.exit(f"damaged: {verdict}")
    try:
        count, last = db.execute("SELECT count(*), coalesce(max(id), 0) FROM rows").fetchone()
    except sqlite3.OperationalError:  # cut before the table was there
        count, last = 0, 0
    if count != last:
        sys.exit(f"{count} rows, but the last is {last}")
    print(count)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
