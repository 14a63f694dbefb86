#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a shared library's dynamic symbols and needed libraries with readelf.

usage: check_symbols.py LIBRARY EXPORTED [NEEDED...]

EXPORTED is a text file: one name a line (shell patterns allowed), '#' begins a comment. Every exported symbol must
match a line, and every line without a pattern must be exported. Needed: libc, libm, the loader and NEEDED, no more.
"""
import fnmatch
import re
import subprocess
import sys

ALWAYS = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True, text=True).stdout


def exported_symbols(library):
    names = set()
    for line in readelf("--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] == "UND" or fields[4] not in ("GLOBAL", "WEAK", "UNIQUE"):
            continue
        if fields[6] != "ABS":  # version names
            names.add(fields[7].split("@")[0])
    return names


def main():
    library, listed_path, *more = sys.argv[1:]
    listed = []
    with open(listed_path, encoding="utf-8") as lines:
        listed = [text for line in lines if (text := line.split("#")[0].strip())]
    exported = exported_symbols(library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", library)))

    offences = [f"exports {name}, which is not listed" for name in sorted(exported)
                if not any(fnmatch.fnmatchcase(name, pattern) for pattern in listed)]
    offences += [f"does not export {name}" for name in listed if not set("*?[") & set(name) and name not in exported]
    offences += [f"needs {name}" for name in sorted(needed - ALWAYS - set(more))]
    for offence in offences:
        print(f"{library}: {offence}", file=sys.stderr)
    print(f"{len(exported)} symbols, needs {', '.join(sorted(needed))}")
    return 1 if offences or not exported else 0


if __name__ == "__main__":
    sys.exit(main())
