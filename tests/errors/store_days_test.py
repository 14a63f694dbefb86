#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stores that are damaged, unwritable, full or held by others: the program tunes without them, or without the rows that
are damaged; one line says so; answers, output and exit status are those without Whet.

usage: store_days_test.py LIBRARY PROGRAM file|rows|bits|place
"""
import concurrent.futures
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import time

from bad_day import PATIENCE, Host, finish, store_folder, verdict

TUNED = {"WHET_FORCE": "whet", "WHET_BUDGET_CPU": "1"}
SEED = 20261201
AT_ONCE = 3
WITHOUT = ("tuning without a store: ",)
DAMAGED = ("damaged or made elsewhere: not used",)
ONCE = object()   # there is no second run
WORKING_MS = 700  # of a run that is watched for a line that must not come


def finished(store):
    """Waits until the last helper has let go of the store: its log is then merged and gone."""
    end = time.monotonic() + PATIENCE
    while os.path.isfile(f"{store}-wal") and time.monotonic() < end:
        time.sleep(0.05)


def counts_of(store):
    """Rows by table; empty before there are tables."""
    try:
        database = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        try:
            return {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                    for table in ("plans", "blobs", "machines")}
        finally:
            database.close()
    except sqlite3.Error:
        return {}


def good_store(host, folder):
    """A store with plans, microkernels and the machine's figures."""
    store = os.path.join(folder, "good", "store.db")

    def filled():
        counts = counts_of(store)
        return counts.get("plans", 0) > 2 and counts["blobs"] > 1 and counts["machines"] == 1

    lines, problem = host.run({**TUNED, "WHET_STORE": store}, until=filled)
    finished(store)
    if lines or problem or not filled():
        sys.exit(f"no store could be made: {counts_of(store)} {problem} {lines}")
    return store


class Day:
    """One store, one kind of damage, two runs."""

    def __init__(self, host, good, folder):
        self.host, self.good, self.folder = host, good, folder

    def run(self, name, damage, expected, later=None):
        """damage(store): on a copy of the good store. expected: of the line that is said; None: silence; (): at most
        one line. later: the same for a second run on the same store, or ONCE."""
        place = pathlib.Path(self.folder, name.replace(" ", "_"))
        place.mkdir()
        store = str(place / "store.db")
        for suffix in ("", ".key"):
            shutil.copy(self.good + suffix, store + suffix)
        damage(store)
        failures = []
        for number, text in enumerate((expected, later)):
            if text is ONCE:
                break
            until = {"until": text[0]} if text else {}
            lines, problem = self.host.run({**TUNED, "WHET_STORE": store}, milliseconds=WORKING_MS, **until)
            failures.append(verdict(f"{name}, run {number + 1}", lines, problem, text))
            finished(store)
        return [failure for failure in failures if failure]


def write(suffix, content):
    def damage(store):
        with open(store + suffix, "wb") as file:
            file.write(content)
        os.chmod(store + suffix, 0o600)
    return damage


def replace(suffix, make):
    def damage(store):
        os.unlink(store + suffix)
        make(store + suffix)
    return damage


def cut(store):
    os.truncate(store, os.path.getsize(store) // 3)


def link(path):
    os.rename(path + ".key", path + "-elsewhere")
    os.symlink(path + "-elsewhere", path)


def flip_bits(seed, count):
    """Bits of pages and rows; the first page's header stays, so that SQLite takes it for its own."""
    def damage(store):
        dice = random.Random(seed)
        with open(store, "r+b") as file:
            content = bytearray(file.read())
            for _ in range(count):
                content[dice.randrange(100, len(content))] ^= 1 << dice.randrange(8)
            file.seek(0)
            file.write(content)
    return damage


def sql(*statements):
    def damage(store):
        with sqlite3.connect(store) as database:
            for statement in statements:
                database.execute(statement)
        database.close()
    return damage


def file_cases():
    noise = random.Random(SEED)
    return [
        ("random bytes", write("", noise.randbytes(40000)), WITHOUT, WITHOUT),
        ("random bytes of one page", write("", noise.randbytes(4096)), WITHOUT, WITHOUT),
        ("text", write("", b"no database\n" * 400), WITHOUT, WITHOUT),
        ("empty file", write("", b""), None, None),
        ("cut short", cut, (), ()),
        ("folder in its place", replace("", os.mkdir), WITHOUT, WITHOUT),
        ("pipe in its place", replace("", os.mkfifo), WITHOUT, WITHOUT),
        ("link in its place", replace("", lambda path: os.symlink("/etc/passwd", path)), WITHOUT, WITHOUT),
        ("writable for others", lambda store: os.chmod(store, 0o666), WITHOUT, WITHOUT),
        ("random log", write("-wal", noise.randbytes(9000)), None, None),
        ("folder for a log", lambda store: os.mkdir(store + "-wal"), (), ()),
        ("empty key", write(".key", b""), DAMAGED, None),
        ("short key", write(".key", noise.randbytes(5)), DAMAGED, None),
        ("long key", write(".key", noise.randbytes(100)), DAMAGED, None),
        ("folder for a key", replace(".key", os.mkdir), WITHOUT, WITHOUT),
        ("newer schema", sql("PRAGMA user_version = 99"), WITHOUT, WITHOUT),
        ("older schema", sql("PRAGMA user_version = 1"), None, None),
        ("table missing", sql("DROP TABLE plans"), ("store unreadable",), ("store unreadable",)),
    ]


def row_cases():
    values = [
        ("plans", "schedule", "'matmul of nothing'"), ("plans", "schedule", "x'00ff'"), ("plans", "op", "randomblob(length(op))"),
        ("plans", "op", "x'01'"), ("plans", "state", "99"), ("plans", "state", "1 - state"), ("plans", "time_ns", "1e300"),
        ("plans", "time_ns", "-1.0"), ("plans", "time_ns", "'soon'"), ("plans", "ratio", "9e999"), ("plans", "trials", "-5"),
        ("plans", "kernels", "'nonsense'"), ("plans", "checksum", "NULL"), ("plans", "conditions", "zeroblob(1000000)"),
        ("blobs", "bytes", "randomblob(length(bytes))"), ("blobs", "bytes", "x''"), ("blobs", "entry", "4294967295"),
        ("blobs", "text_bytes", "1 << 40"), ("blobs", "digest", "randomblob(16)"), ("blobs", "spec", "'tile of ' || spec"),
        ("machines", "peak_gflops", "-1.0"), ("machines", "stream_gbs", "9e999"), ("machines", "peak_gflops", "'fast'"),
    ]
    first = {"plans": "op", "blobs": "spec", "machines": "machine"}  # of one row only
    one = {table: f"{key} = (SELECT min({key}) FROM {table})" for table, key in first.items()}
    return [(f"{table} {column} {number}", sql(f"UPDATE {table} SET {column} = {value} WHERE {one[table]}"), DAMAGED,
             None if number % 4 == 0 else ONCE) for number, (table, column, value) in enumerate(values)]


def bit_cases():
    return [(f"{count} bits, seed {SEED + seed}", flip_bits(SEED + seed, count), (), ONCE)
            for seed, count in enumerate([1] * 4 + [10] * 4 + [200] * 4)]


def places(host, folder):
    """Where a store cannot be written: failures, and what could not be tried."""
    failures, left_out = [], []
    mounts = os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    point = os.path.join(folder, "mounted")
    os.mkdir(point)
    store = os.path.join(point, "sub", "store.db")
    cases = [
        # name, how the folder is prepared, what is said, words before the program
        ("full disk", f"mount -t tmpfs -o size=4k,nr_inodes=16 none {point} && mkdir {point}/sub && "
         f"! head -c 65536 /dev/zero > {point}/filler 2>/dev/null", WITHOUT),
        ("disk that fills up", f"mount -t tmpfs -o size=96k none {point} && mkdir {point}/sub", ("store unwritable, tuning without it",)),
        ("read-only disk", f"mount -t tmpfs -o ro none {point}", WITHOUT),
    ]
    for name, prepare, expected in cases if mounts else []:
        before = ["unshare", "--mount", "sh", "-c", f'{prepare} && exec "$@"', "sh"]
        lines, problem = host.run({**TUNED, "WHET_STORE": store}, before=before, until=expected[0])
        failures.append(verdict(name, lines, problem, expected))
    if not mounts:
        left_out.append("full and read-only disks: no mounts here")
    if os.geteuid() != 0:
        locked = os.path.join(folder, "locked")
        os.mkdir(locked, 0o555)
        lines, problem = host.run({**TUNED, "WHET_STORE": os.path.join(locked, "store.db")}, until=WITHOUT[0])
        failures.append(verdict("read-only folder", lines, problem, WITHOUT))
    # Another process writes for ever: what is found waits, and nobody is told.
    store = os.path.join(folder, "held", "store.db")
    lines, problem = host.run({**TUNED, "WHET_STORE": store}, "served")
    failures.append(verdict("before it is held", lines, problem, None))
    with sqlite3.connect(store, isolation_level=None) as database:
        database.execute("BEGIN IMMEDIATE")
        lines, problem = host.run({**TUNED, "WHET_STORE": store}, "served", milliseconds=3000)
        failures.append(verdict("held by another", lines, problem, None))
        database.execute("ROLLBACK")
    database.close()
    # A relative path is the program's, wherever its helper works.
    lines, problem = host.run({**TUNED, "WHET_STORE": "here/store.db"}, "served", cwd=folder)
    failures.append(verdict("relative path", lines, problem, None))
    if not os.path.exists(os.path.join(folder, "here", "store.db")):
        failures.append("a relative WHET_STORE is not taken from the program's folder")
    return failures, left_out


def main():
    library, program, kind = sys.argv[1:]
    host = Host(library, program)
    with store_folder() as folder:
        if kind == "place":
            failures, left_out = places(host, folder)
            print("\n".join(left_out))
            return finish(failures, "stores that cannot be written are done without")
        day = Day(host, good_store(host, folder), folder)
        cases = {"file": file_cases, "rows": row_cases, "bits": bit_cases}[kind]()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            failures = sum(pool.map(lambda case: day.run(*case), cases), [])
    return finish(failures, f"{len(cases)} damaged stores, answers as ever (seed {SEED})")


if __name__ == "__main__":
    sys.exit(main())
