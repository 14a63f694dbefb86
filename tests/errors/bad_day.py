# SPDX-License-Identifier: Apache-2.0
"""Programs under the preload on a bad day: run, and compared with the same program without Whet."""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from store_folder import store_folder  # noqa: E402, F401

SKIPPED = 77
HOST_STATUS = 7
PATIENCE = 100  # seconds, for background work of the lowest priority on a busy machine
GRACE = 0.3     # seconds in which a second line would come


def environment(library, changes):
    """The variables of a run, Whet's own only as `changes` say; library: what is preloaded, or None."""
    chosen = {name: value for name, value in os.environ.items() if not name.startswith("WHET_")}
    chosen.update({"OPENBLAS_NUM_THREADS": "1"}, **changes)
    if library:
        chosen["LD_PRELOAD"] = library
    return chosen


def through_env(command, chosen):
    """`command` such that the preload is for the program alone, not for what starts it."""
    preload = chosen.pop("LD_PRELOAD", None)
    return ["env", f"LD_PRELOAD={preload}", *command] if preload else list(command)


class Host:
    """A program, and what it does without Whet."""

    def __init__(self, library, program):
        self.library, self.program = library, program
        plain = subprocess.run([program, "0"], env=environment(None, {}), capture_output=True, text=True, check=False)
        if plain.returncode != HOST_STATUS or plain.stderr:
            sys.exit(f"without Whet the program ends with {plain.returncode}\n{plain.stdout}{plain.stderr}")
        self.output = plain.stdout

    def run(self, changes, *arguments, before=(), library=None, cwd=None, until=None, milliseconds=0):
        """The lines that were said on standard error and the problem with the run, or None.

        before: command words in front of the program; until: the run goes on until that was said, or holds."""
        chosen = environment(library or self.library, changes)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as out, \
                tempfile.TemporaryFile("w+") as said:
            enough = os.path.join(folder, "enough")
            more = ["until", enough] if until else []
            command = [*before, *through_env([self.program, str(milliseconds), *arguments, *more], chosen)]
            process = subprocess.Popen(command, env=chosen, stdout=out, stderr=said, cwd=cwd)
            if until:
                end = time.monotonic() + PATIENCE
                holds = until if callable(until) else lambda: until in read(said)
                while process.poll() is None and time.monotonic() < end and not holds():
                    time.sleep(0.05)
                if not callable(until):
                    time.sleep(GRACE)
                open(enough, "w", encoding="utf-8").close()
            status = process.wait()
            lines, output = read(said).splitlines(), read(out)
        if status == SKIPPED:
            print(output.strip() or "not possible here")
            sys.exit(SKIPPED)
        if status != HOST_STATUS or output != self.output:
            return lines, f"exit {status}, expected {HOST_STATUS}; output {output!r}, expected {self.output!r}"
        return lines, None


def read(file):
    file.seek(0)
    return file.read()


def verdict(name, lines, problem, expected, most=1):
    """None when the run was well and said what it should: exactly one line with each of `expected`, or, without any,
    at most `most` lines."""
    if not problem and expected is None and lines:
        problem = "expected silence"
    if not problem and expected is not None:
        if len(lines) > most or (expected and (len(lines) != 1 or any(text not in lines[0] for text in expected))):
            problem = f"expected one line with {expected}"
    return f"{name}: {problem}, got:\n" + "\n".join(lines) if problem else None


def finish(failures, done):
    failures = [failure for failure in failures if failure]
    print("\n".join(failures) or done)
    return 1 if failures else 0
