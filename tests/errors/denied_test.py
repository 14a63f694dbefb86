#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the system or the CPU does not give: one line says so, or another way is taken in silence; the program's output
and exit status are those without Whet.

usage: denied_test.py LIBRARY PROGRAM DENY KIND [PRELOAD]

KIND: memfd, code, gain, threads (see deny.c), or cpu and clock, with old_cpu.c and clock_jumps.c as PRELOAD.
"""
import json
import os
import sys

from bad_day import Host, finish, store_folder, verdict

TUNED = {"WHET_FORCE": "whet", "WHET_BUDGET_CPU": "1"}
KINDS = {
    # kind: what is said, or None where plans serve all the same
    "memfd": None,
    "gain": None,
    "clock": None,
    "code": ("no executable memory: untuned",),
    "threads": ("cannot start thread whet-tuner", "untuned"),
    "cpu": ("a CPU without AVX2 and FMA: untuned",),
}


def main():
    library, program, deny, kind, *preload = sys.argv[1:]
    expected = KINDS[kind]
    host = Host(library, program)
    before = [] if preload else [deny, kind]
    failures = []
    with store_folder() as folder:
        report = os.path.join(folder, "report.json")
        for forge in ("process", "thread"):
            changes = {**TUNED, "WHET_FORGE": forge, "WHET_STORE": os.path.join(folder, forge, "store.db")}
            preloaded = ":".join([library, *preload])
            until = {"until": expected[0]} if expected else {}
            arguments = ["report", report] + ([] if expected else ["served"])
            lines, problem = host.run(changes, *arguments, before=before, library=preloaded, **until)
            failures.append(verdict(f"{kind}, {forge}", lines, problem, expected))
            with open(report, encoding="utf-8") as file:
                doing = json.load(file)["tuning"]["forge"]
            if (doing == forge) == bool(expected):
                failures.append(f"{kind}, {forge}: the report says forge {doing}")
    return finish(failures, f"{kind}: {'one line, untuned' if expected else 'silence, tuned'}")


if __name__ == "__main__":
    sys.exit(main())
