#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Libraries and helpers that are missing, broken or of another build: refused in one line, never run.

usage: mixed_builds_test.py LIBRARY PROGRAM ENDS_IDENTITY GENERATOR_IDENTITY

The last two are the generated sources that hold the identities (whet_add_identity).
"""
import os
import pathlib
import re
import shutil
import sys

from bad_day import Host, finish, store_folder, verdict

TUNED = {"WHET_FORCE": "whet", "WHET_BUDGET_CPU": "1", "WHET_STORE": "none"}
PROCESS, THREAD = {**TUNED, "WHET_FORGE": "process"}, {**TUNED, "WHET_FORGE": "thread"}
OTHER = b"0123456789abcdef"
PARTS = ("whet-forge", "libwhet_forge.so", "libwhet_llvm.so", "microkernels.bin")
ONE_BUILD = "of one build"


def identity_of(source):
    return re.search(r'= "([0-9a-f]{16})"', pathlib.Path(source).read_text(encoding="utf-8")).group(1).encode()


def another_build(identity):
    def change(path):
        content = path.read_bytes()
        if identity not in content:
            sys.exit(f"{path} does not hold {identity}")
        path.write_bytes(content.replace(identity, OTHER))
    return change


def text(path):
    path.write_text("not what it seems\n")


def cut(path):
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])


def damage_end(path):
    content = bytearray(path.read_bytes())
    content[-5000] ^= 0x40
    path.write_bytes(content)


def main():
    library, program, ends, generator = sys.argv[1:]
    host = Host(library, program)
    ends, generator = identity_of(ends), identity_of(generator)
    no_forge, no_compiler, no_file = "no forge (", "no code generator (", "no installed microkernels ("
    cases = [
        # file, change, variables, what is said, whether plans serve all the same
        ("libwhet_forge.so", another_build(ends), PROCESS, (no_forge, "got a program of", ONE_BUILD, "untuned"), False),
        ("libwhet_forge.so", another_build(ends), THREAD, (no_forge, "got a program of", ONE_BUILD, "untuned"), False),
        ("libwhet_forge.so", text, THREAD, (no_forge, "untuned"), False),
        ("whet-forge", pathlib.Path.unlink, PROCESS, (no_forge, "untuned"), False),
        ("whet-forge", text, PROCESS, (no_forge, "cannot start", "untuned"), False),
        ("whet-forge", pathlib.Path.unlink, TUNED, ("no helper process (", "the forge runs in a thread"), True),
        ("libwhet_llvm.so", another_build(generator), TUNED, (no_compiler, OTHER.decode(), generator.decode(), ONE_BUILD), True),
        ("libwhet_llvm.so", pathlib.Path.unlink, TUNED, (no_compiler,), True),
        ("libwhet_llvm.so", text, TUNED, (no_compiler,), True),
        ("microkernels.bin", another_build(generator), TUNED, (no_file, OTHER.decode(), ONE_BUILD), True),
        ("microkernels.bin", pathlib.Path.unlink, TUNED, (no_file,), True),
        ("microkernels.bin", cut, TUNED, (no_file, "damaged"), True),
        ("microkernels.bin", damage_end, TUNED, (no_file, "damaged"), True),
        ("microkernels.bin", text, TUNED, (no_file,), True),
    ]
    failures = []
    with store_folder() as folder:
        for number, (name, change, variables, expected, serves) in enumerate(cases):
            copy = pathlib.Path(folder, str(number))
            copy.mkdir()
            for part in ("libwhet.so", "libwhet_blas.so"):
                shutil.copy(pathlib.Path(library).with_name(part), copy)
            (copy / "whet").mkdir()
            for part in PARTS:  # a helper looks for its library beside where it really lies
                original = pathlib.Path(library).with_name("whet") / part
                if part in (name, "whet-forge"):
                    shutil.copy(original, copy / "whet")
                else:
                    (copy / "whet" / part).symlink_to(original)
            change(copy / "whet" / name)
            lines, problem = host.run(variables, *(["served"] if serves else []), until=expected[0],
                                      library=str(copy / "libwhet_blas.so"))
            failures.append(verdict(f"{name}, case {number}", lines, problem, expected))
            shutil.rmtree(copy)
    return finish(failures, f"{len(cases)} unfit helpers refused")


if __name__ == "__main__":
    sys.exit(main())
