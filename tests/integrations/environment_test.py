#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every WHET_ variable with values that cannot be used, in a program under the preload: one warning that names the
variable, the default in its place, answers and exit status as ever.

usage: environment_test.py LIBRARY PROGRAM ENVIRONMENT_PAGE
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

IGNORED, REFUSED = "is ignored: ", "is refused: not built in this version"
UNUSABLE = [
    # variable, values, what the warning says besides the variable's name
    ("WHET_ENABLE", ["2", "maybe", "on"], IGNORED),
    ("WHET_TUNE", ["sometimes", "ON"], IGNORED),
    ("WHET_NUMERICS", ["exact"], IGNORED),
    ("WHET_NUMERICS", ["relaxed"], REFUSED),
    ("WHET_PIN", ["yes"], IGNORED),
    ("WHET_CHECKED", ["-1"], IGNORED),
    ("WHET_FORGE", ["gpu"], IGNORED),
    ("WHET_ISA", ["sse9", "avx-512"], IGNORED),
    ("WHET_BUDGET_CPU", ["lots", "-1", "nan", "inf", "1e9", "0x1", "1 "], IGNORED),
    ("WHET_BUDGET_SECONDS", ["-3", "nan", "soon"], IGNORED),
    ("WHET_BUDGET_TRIALS", ["1.5", "-1", "99999999999999999999"], IGNORED),
    ("WHET_BUDGET_MEMORY", ["12Q", "-1"], IGNORED),
    ("WHET_BUDGET_CODE", ["-1", "auto", "99999999999G"], IGNORED),
    ("WHET_BUDGET_PACKED", ["many", "K"], IGNORED),
    ("WHET_BUDGET_SITES", ["0", "16777217", "4k"], IGNORED),
    ("WHET_STORE", ["redis://host", "https://host/db"], REFUSED),
    ("WHET_STORE", ["/dev/null/folder/store.db", "/proc/store.db"], "tuning without a store: "),
    ("WHET_POLICY", ["ppo", "AUTO", "oracle"], IGNORED),
    ("WHET_FORCE", ["nonsense", "matmul tile=0x0"], IGNORED),
    ("WHET_TEST_HOOKS", ["on"], IGNORED),
    ("WHET_SEED", ["-1", "random"], IGNORED),
    ("WHET_LOG", ["shout", "info,,tuner"], IGNORED),
    ("WHET_LOG_FILE", ["/nonexistent/folder/log"], IGNORED),
    ("WHET_DUMP", ["/nonexistent/folder"], IGNORED),
    ("WHET_PERF", ["2"], IGNORED),
    ("WHET_CONTROL", ["/nonexistent/page", "/etc/passwd"], IGNORED),
    ("WHET_BUDGET", ["1"], " is not a variable of whet"),
    ("WHET_Enable", ["0"], " is not a variable of whet"),
]
LATE = ("WHET_STORE", "WHET_POLICY", "WHET_CONTROL")  # said by the background, when it gets to it
NOT_NAMED = ("tuning without a store: ",)  # the path names it
PATIENCE = 100  # seconds, for a background thread of the lowest priority on a busy machine
GRACE = 0.3  # seconds in which a second line would come


def run(library, program, changes, until=None):
    """The exit status and standard error of a run; with `until`, it is ended once that has been said."""
    chosen = {name: value for name, value in os.environ.items() if not name.startswith("WHET_")}
    chosen.update({"WHET_STORE": "none", "OPENBLAS_NUM_THREADS": "1", "LD_PRELOAD": library, **changes})
    if until is None:
        done = subprocess.run([program, "0"], env=chosen, capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([program, str(PATIENCE * 1000)], env=chosen, stdout=said, stderr=said)
        end = time.monotonic() + PATIENCE
        text = ""
        while until not in text and time.monotonic() < end and process.poll() is None:
            time.sleep(0.02)
            said.seek(0)
            text = said.read()
        time.sleep(GRACE)
        ended = process.poll()
        process.kill()
        process.wait()
        said.seek(0)
        return ended or 0, said.read()


def check(library, program, variable, value, expected):
    status, said = run(library, program, {variable: value}, expected if variable in LATE and expected != REFUSED else None)
    lines = said.splitlines()
    named = variable in said or expected in NOT_NAMED and os.path.dirname(value) in said
    if status == 0 and len(lines) == 1 and named and expected in said and "level=warning" in said:
        return None
    return f"{variable}={value}: exit {status}, expected one line with {expected!r}, got:\n{said}"


def main():
    library, program, page = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        documented = set(re.findall(r"^\| `(WHET_\w+)`", file.read(), re.MULTILINE))
    untested = documented - {variable for variable, _, _ in UNUSABLE}
    failures = [f"{variable} has no row here" for variable in sorted(untested)]
    rows = [(variable, value, expected) for variable, values, expected in UNUSABLE for value in values]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        failures += filter(None, pool.map(lambda row: check(library, program, *row), rows))
    # Every one of several, once each; none where there is no budget; none for a value that is set but empty.
    several = {"WHET_TUNE": "sometimes", "WHET_SEED": "x"}
    for changes, lines in ((several, 2), ({**several, "WHET_BUDGET_CPU": "0"}, 0), (dict.fromkeys(documented, ""), 0)):
        status, said = run(library, program, changes)
        if status != 0 or len(said.splitlines()) != lines:
            failures.append(f"{changes}: exit {status}, expected {lines} lines, got:\n{said}")
    print("\n".join(failures) or f"{len(rows)} values, each said in one line")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
