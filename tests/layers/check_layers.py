#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes point one way, and that each third-party library is included in its folder only.

usage: check_layers.py ROOT [--self-test]
"""
import pathlib
import re
import sys

# A folder may include itself and what is listed here. jit and policy never see each other.
ALLOWED = {
    "include": set(),
    "base": {"include"},
    "jit": {"base", "include"},
    "policy": {"base", "include"},
    "runtime": {"jit", "policy", "base", "include"},
    "integrations": {"include"},
    "tools": {"include"},
    "examples": {"include"},
}
# Third-party headers, by the start of their name, and the folders that may include them. Tests are free.
THIRD_PARTY = {
    "llvm/": ["jit/cpu"],
    "llvm-c/": ["jit/cpu"],
    "nvrtc": ["jit/cuda"],
    "cuda": ["jit/cuda"],
    "torch/": ["policy/ppo", "integrations/torch"],
    "ATen/": ["policy/ppo", "integrations/torch"],
    "xgboost/": ["policy/cost_model"],
    "sqlite3.h": ["runtime/store"],
    "hiredis/": ["runtime/store"],
    "CLI/": ["tools"],
    "nlohmann/": ["tools", "examples"],
    "httplib.h": ["tools", "examples"],
    "benchmark/": [],
    "gtest/": [],
    "cblas.h": [],
}
SOURCES = {".c", ".cpp", ".h", ".hpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def target_folder(header, file, root):
    """The top folder that a header of the project lies in; None for foreign headers."""
    if header.startswith("whet/"):
        return "include"
    top = header.split("/", 1)[0]
    if "/" in header and top in ALLOWED and (root / header).exists():
        return top
    beside = (file.parent / header).resolve()
    if beside.is_relative_to(root) and beside.exists():
        return beside.relative_to(root).parts[0]
    return None


def check_file(path, text, root):
    """Yields one sentence for every include of a file that points the wrong way."""
    relative = path.relative_to(root)
    folder = relative.parts[0]
    for quote, header in INCLUDE.findall(text):
        target = target_folder(header, path, root)
        if target is not None and target != folder and target not in ALLOWED[folder]:
            yield f"{relative}: {folder} must not include {header} of {target}"
        if target is None and quote == '"' and not any(header.startswith(start) for start in THIRD_PARTY):
            yield f"{relative}: {header} is not found from the project's root"
        if target is not None:
            continue
        for start, folders in THIRD_PARTY.items():
            if header.startswith(start) and not any(relative.is_relative_to(allowed) for allowed in folders):
                yield f"{relative}: {header} may be included in {folders or 'tests'} only"


def check(root):
    offences, count = [], 0
    for folder in ALLOWED:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                count += 1
                offences += check_file(path, path.read_text(encoding="utf-8"), root)
    return offences, count


def self_test(root):
    """The checker itself must find offences."""
    cases = [
        ("jit/x.cpp", '#include "runtime/forge/protocol.hpp"\n', 1),
        ("runtime/x.cpp", '#include "jit/microkernel.hpp"\n', 0),
        ("policy/x.cpp", '#include "jit/microkernel.hpp"\n', 1),
        ("runtime/x.cpp", "#include <llvm/IR/IRBuilder.h>\n", 1),
        ("jit/cpu/x.cpp", "#include <llvm/IR/IRBuilder.h>\n", 0),
        ("integrations/blas/x.cpp", '  #  include "base/log.hpp"\n', 1),
        ("include/whet/x.hpp", "#include <whet/whet.h>\n", 0),
        ("base/x.cpp", '#include "base/absent.hpp"\n', 1),
    ]
    for name, text, expected in cases:
        found = list(check_file(root / name, text, root))
        if len(found) != expected:
            return [f"self test: {name}: {text.strip()}: {len(found)} offences, expected {expected}"]
    return []


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    offences, count = check(root)
    offences += self_test(root)
    for offence in offences:
        print(offence, file=sys.stderr)
    print(f"{count} files, {len(offences)} offences")
    return 1 if offences or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
