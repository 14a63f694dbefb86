#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many distinct shapes: memory stays as it is once the budget of sites is used up, and no call fails.

usage: shapes_test.py WHET
"""
import json
import os
import subprocess
import sys
import tempfile

MOST_GROWTH_MIB = 2
SITES, SHAPES = 1024, 20000
HANDLES_PER_SITE = 2


def main():
    whet = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        chosen = dict(os.environ, WHET_BUDGET_SITES=str(SITES))
        done = subprocess.run([whet, "bench", "shapes", "--count", str(SHAPES), "--json", out], env=chosen,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"exit {done.returncode}\n{done.stdout}{done.stderr}")
            return 1
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
    print(f"{SHAPES} shapes: {result['growth_mib']:.2f} MiB more, {result['hit_ns_late']:.0f} ns a hit")
    if result["sites"] != SITES * HANDLES_PER_SITE or result["growth_mib"] > MOST_GROWTH_MIB:
        print(result)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
