#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that runs under `whet run` is reported, explained and steered; then the store tells of what it left.

usage: steering_test.py WHET PROGRAM
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from store_folder import store_folder  # noqa: E402

WHET = PROGRAM = ""


class Steering(unittest.TestCase):
    def whet(self, *arguments, expected=0):
        done = subprocess.run([WHET, *arguments], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done.stdout if expected == 0 else done.stderr

    def wait_for_sites(self, pid):
        """The program's first report that holds operations and a served one."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            done = subprocess.run([WHET, "report", "--json", pid], env=self.environment, capture_output=True, text=True)
            document = json.loads(done.stdout) if done.returncode == 0 else {"sites": []}
            if any(site["served"] == "whet" for site in document["sites"]):
                return document
            os.sched_yield()
        self.fail("nothing was served")

    def test_a_process_and_its_store(self):
        with store_folder() as folder, tempfile.TemporaryDirectory() as results:
            result = os.path.join(results, "gains.json")
            self.environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", WHET_FORCE="whet", WHET_BUDGET_CPU="1",
                                    WHET_STORE=os.path.join(folder, "store.db"))
            command = ["sh", "-c", 'echo $$; exec "$0" 6 served', PROGRAM]
            with subprocess.Popen([WHET, "run", "--json", result, "--", *command], env=self.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                pid = process.stdout.readline().strip()
                document = self.wait_for_sites(pid)
                self.check_explanations(pid, document)
                self.check_page(self.whet("report", "--html", pid), document)
                for order in ("pause", "resume", "drain"):
                    self.whet("ctl", pid, order)
                process.communicate(timeout=100)
                self.assertEqual(process.returncode, 0)
            with open(result, encoding="utf-8") as file:
                sites = [site for one in json.load(file)["processes"] for site in one.get("sites", [])]
            self.check_page(self.whet("report", "--html", "--from", result), {"sites": sites}, exact=True)
            self.check_store()

    def check_explanations(self, pid, document):
        served = next(site for site in document["sites"] if site["served"] == "whet")
        text = self.whet("explain", served["op"], pid)
        self.assertTrue(text.startswith(served["op"] + "\n"), text)
        self.assertRegex(text, r"\n  [\d,]+ calls, [\d,]+ answered by plans of whet\n")
        self.assertIn("of all candidates in this process: ", text)
        self.assertIn('no operation of the process contains "nothing like it"',
                      self.whet("explain", "nothing like it", pid, expected=1))

    def check_page(self, text, document, exact=False):
        """The page's table holds the report's operations; a later report of a running process may hold more."""
        rows = [row for table in ElementTree.fromstring(text).iter("table") if table.get("id") == "sites"
                for row in table.findall("tbody/tr")]
        calls = {"".join(row[0].itertext()): float(row[1][0].get("value")) for row in rows}
        reported = {}
        for site in document["sites"]:
            reported[site["op"]] = reported.get(site["op"], 0) + site["calls"]
        if exact:
            self.assertEqual(calls, reported)
        self.assertLessEqual(set(reported), set(calls))
        for name, count in reported.items():
            self.assertGreaterEqual(calls[name], count)

    def check_store(self):
        stored = json.loads(self.whet("report", "--json"))
        self.assertEqual(stored["source"], "store")
        self.assertGreater(len(stored["sites"]), 0)
        self.assertEqual(sum(site["trials"] for site in stored["sites"]), stored["tuning"]["trials"])
        self.check_page(self.whet("report", "--html"), stored, exact=True)
        name = stored["sites"][0]["op"]
        text = self.whet("explain", re.sub(r"^\w+ ", "", name))
        self.assertIn(name + "\n", text)
        self.assertIn("schedule  " + stored["sites"][0]["schedule"], text)
        self.assertIn("no stored operation contains", self.whet("explain", "nothing like it", expected=1))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop()
    WHET = sys.argv.pop()
    unittest.main()
