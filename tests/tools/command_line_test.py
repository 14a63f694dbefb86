#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command line: exit codes, what `whet run` passes on, what it prints where.

usage: command_line_test.py WHET
"""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import unittest

WHET = ""


def whet(*arguments, **options):
    options.setdefault("input", "")
    environment = dict(os.environ, WHET_STORE="none", WHET_BUDGET_CPU="0", **options.pop("environment", {}))
    return subprocess.run([WHET, *arguments], capture_output=True, text=True, timeout=60, env=environment, **options)


class Started(subprocess.Popen):
    """A process that is killed, with its group, when the test leaves it early."""

    def __init__(self, arguments, **options):
        super().__init__(arguments, start_new_session=True, **options)

    def __exit__(self, *failure):
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
        return super().__exit__(*failure)


class WrongUse(unittest.TestCase):
    def test_exits_with_two(self):
        for arguments in ([], ["bogus"], ["run"], ["run", "--"], ["run", "true"], ["run", "--nope", "--", "true"],
                          ["tune"], ["ctl", "1"], ["ctl", "x", "pause"], ["report", "--json", "--html"]):
            with self.subTest(arguments=arguments):
                result = whet(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertNotEqual(result.stderr, "")

    def test_help_and_version_exit_with_zero(self):
        for arguments in (["--help"], ["run", "--help"], ["--version"]):
            with self.subTest(arguments=arguments):
                result = whet(*arguments)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertNotEqual(result.stdout, "")


class Run(unittest.TestCase):
    def test_passes_the_status_on(self):
        for status in (0, 1, 2, 77, 255):
            self.assertEqual(whet("run", "--", "sh", "-c", f"exit {status}").returncode, status)
        self.assertEqual(whet("run", "--", "sh", "-c", "kill -KILL $$").returncode, 128 + signal.SIGKILL)

    def test_says_what_cannot_be_started(self):
        result = whet("run", "--", "/nonexistent/command")
        self.assertEqual(result.returncode, 127)
        self.assertIn("/nonexistent/command", result.stderr)
        self.assertEqual(whet("run", "--", "/etc/passwd").returncode, 126)

    def test_passes_streams_arguments_and_environment(self):
        script = 'cat; printf "%s|" "$@"; printf %s "$WHET_SEED"; echo error >&2'
        result = whet("run", "--", "sh", "-c", script, "name", "--json", "--", "a b", input="line\n",
                      environment={"WHET_SEED": "7"})
        self.assertEqual(result.stdout, "line\n--json|--|a b|7")
        self.assertTrue(result.stderr.startswith("error\n"), result.stderr)

    def test_sets_the_preload_before_what_is_there(self):
        result = whet("run", "--", "sh", "-c", 'echo "$LD_PRELOAD"; echo "$WHET_CONTROL"',
                      environment={"LD_PRELOAD": "libm.so.6"})
        preload, control = result.stdout.splitlines()
        self.assertRegex(preload, r"^/.*/libwhet_blas\.so:libm\.so\.6$")
        self.assertRegex(control, r"^/proc/\d+/fd/\d+$")

    def test_leaves_no_descriptor_to_the_command(self):
        plain = subprocess.run(["sh", "-c", "ls /proc/self/fd"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(whet("run", "--", "sh", "-c", "ls /proc/self/fd").stdout, plain)

    def test_writes_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.json"
            self.assertEqual(whet("run", "--json", str(path), "--", "sh", "-c", "exit 4").returncode, 4)
            document = json.loads(path.read_text())
            self.assertEqual(document["exit_status"], 4)
            self.assertEqual(document["command"], ["sh", "-c", "exit 4"])
            self.assertIsInstance(document["processes"], list)
            result = whet("run", "--json", f"{folder}/none/report.json", "--", "true")
            self.assertEqual(result.returncode, 1)
            self.assertIn("cannot write", result.stderr)

    def test_draws_no_live_line_without_a_terminal(self):
        self.assertNotIn("\x1b", whet("run", "--", "sleep", "0.6").stderr)

    def test_draws_a_live_line_on_a_terminal(self):
        parent, child = pty.openpty()
        with Started([WHET, "run", "--", "sleep", "0.6"], stderr=child, stdin=subprocess.DEVNULL) as process:
            os.close(child)
            drawn = b""
            while True:
                try:
                    part = os.read(parent, 4096)
                except OSError:
                    break
                if not part:
                    break
                drawn += part
            self.assertEqual(process.wait(), 0)
        os.close(parent)
        self.assertIn(b"\rwhet 0 s  0 calls", drawn)

    def test_an_interrupt_reaches_the_command_and_the_table_is_still_drawn(self):
        script = 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.05; done'
        with Started([WHET, "run", "--", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            os.killpg(process.pid, signal.SIGINT)
            output, error = process.communicate(timeout=30)
        self.assertEqual((output, process.returncode), ("caught\n", 9))
        self.assertIn("whet:", error)

    def test_passes_termination_on(self):
        script = 'trap "exit 8" TERM; echo ready; while :; do sleep 0.05; done'
        with Started([WHET, "run", "--", "sh", "-c", script], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.terminate()
            self.assertEqual(process.wait(timeout=30), 8)


class OtherProcesses(unittest.TestCase):
    def test_say_why_they_cannot_be_reached(self):
        for arguments in (["ctl", str(os.getpid()), "pause"], ["report", "999999999"], ["explain", "x", "1"]):
            with self.subTest(arguments=arguments):
                result = whet(*arguments)
                self.assertEqual(result.returncode, 1)
                self.assertTrue(result.stderr.startswith("whet: "), result.stderr)


if __name__ == "__main__":
    WHET = sys.argv.pop(1)
    unittest.main()
