#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of `whet report --html`: the page is well-formed, refers to nothing outside, and says what the JSON says.

usage: page_test.py WHET
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

WHET = ""

SITES = [
    {"id": "00000000000000aa", "op": "matmul m=32 k=384 n=1536 b=t", "served": "whet", "calls": 1234567,
     "served_calls": 1000000, "before_us": 412.125, "now_us": 201.5, "bound_us": 178.25,
     "gain": {"ratio": 2.0453, "low": 1.98, "high": 2.11},
     "schedule": "contract tile=8x3 & prefetch<2>", "reason": "faster than the original"},
    {"id": "00000000000000bb", "op": "matmul m=5 k=7 n=9 epilogue=\"odd\" <b>&amp;\u0001", "served": "original",
     "calls": 17, "served_calls": 0, "before_us": 3.5, "now_us": 3.5, "bound_us": None, "schedule": "",
     "reason": "the original is faster than the best plan so far"},
    {"id": "00000000000000cc", "op": "matmul m=1 k=1 n=1", "served": "original", "calls": 0, "served_calls": 0,
     "before_us": None, "now_us": None, "bound_us": None, "schedule": "", "reason": "no plan yet"},
]
REPORT = {
    "version": "1.2.3", "isa": "avx2", "numerics": "consistent", "sites": SITES,
    "bypassed_calls": {"unsupported": 3, "threads": 120, "full": 0},
    "tuning": {"trials": 1203, "compiles": 88, "trials_without_compile": 1115, "published": 12, "rolled_back": 1,
               "declined": 2, "rejected": 1032, "rejected_static": 4, "rejected_wrong": 5, "rejected_crashed": 6,
               "rejected_slow": 1017, "cpu_seconds": 14.25, "forge_cpu_seconds": 13.75, "program_cpu_seconds": 0.5,
               "code_bytes": 123456, "packed_bytes": 9437184, "forge_restarts": 0},
}


def whet(*arguments):
    environment = dict(os.environ, WHET_STORE="none", WHET_BUDGET_CPU="0")
    return subprocess.run([WHET, *arguments], capture_output=True, text=True, timeout=60, env=environment)


def page_of(document):
    """The page, parsed strictly as XML: an unbalanced or doubly named tag ends the test."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "gains.json"
        path.write_text(json.dumps(document))
        result = whet("report", "--html", "--from", str(path))
    if result.returncode != 0 or result.stderr:
        raise AssertionError(result.stderr)
    return result.stdout, ElementTree.fromstring(result.stdout)


def words(element):
    return "".join(element.itertext())


def values(element):
    return [float(one.get("value")) for one in element.iter("data")]


def find(root, name):
    found = [element for element in root.iter() if element.get("id") == name]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} elements named {name}")
    return found[0]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text, cls.root = page_of({"command": ["x"], "exit_status": 0, "processes": [REPORT]})

    def test_refers_to_nothing_outside(self):
        for element in self.root.iter():
            self.assertNotIn(element.tag, ("script", "link", "img", "iframe", "object", "embed", "base"))
            for name in element.attrib:
                self.assertNotIn(name, ("href", "src", "srcset", "action", "data", "style"), element.tag)
                self.assertFalse(name.startswith("on"), name)
        for outside in ("http://", "https://", "url(", "@import", "@font-face", "//"):
            self.assertNotIn(outside, self.text)
        self.assertIn("default-src 'none'", self.text)

    def test_is_a_page(self):
        self.assertTrue(self.text.startswith("<!DOCTYPE html>\n<html lang=\"en\">"))
        self.assertEqual([child.tag for child in self.root], ["head", "body"])
        self.assertIn("prefers-color-scheme:dark", self.text)
        names = [element.get("id") for element in self.root.iter() if element.get("id")]
        self.assertEqual(len(names), len(set(names)))

    def test_rows_say_what_the_report_says(self):
        rows = find(self.root, "sites").findall("tbody/tr")
        self.assertEqual(len(rows), len(SITES))
        for row, site in zip(rows, SITES):
            cells = row.findall("td")
            self.assertEqual(words(cells[0]), site["op"].replace("\u0001", " "))
            self.assertEqual(values(cells[1]), [site["calls"]])
            for cell, key in ((2, "before_us"), (3, "now_us"), (5, "bound_us")):
                self.assertEqual(values(cells[cell]), [site[key]] if site[key] is not None else [], key)
            if site["before_us"]:
                self.assertAlmostEqual(values(cells[4])[0], site["before_us"] / site["now_us"], places=12)
            self.assertEqual(cells[6].text, site["served"])
            self.assertIn(site["reason"], words(cells[6]))
            self.assertIn(site["schedule"], words(cells[6]))

    def test_totals_say_what_the_report_says(self):
        for name, value in (("calls", 1234584), ("trials", 1203), ("cpu", 14.25), ("saved", 210.625),
                            ("share", 1000000 / 1234584)):
            self.assertAlmostEqual(values(find(self.root, name))[0], value, places=9, msg=name)
        for name, expected in (("rejections", [4, 5, 6, 1017, 2, 1]), ("cost", [210.625, 13.75, 0.5]),
                               ("bypassed", [3, 120, 0]), ("reasons", [1, 1])):
            self.assertEqual([round(value, 9) for value in values(find(self.root, name))], expected, name)

    def test_bars_and_intervals_lie_where_the_ratios_are(self):
        bars = find(self.root, "gains").findall("div/svg/g")
        self.assertEqual(len(bars), 2, "one for each operation with both times")
        self.assertTrue(bars[0].find("title").text.endswith("2.045x, 95 % interval 1.980 to 2.110"))
        bar = bars[0].find("rect")
        whisker = bars[0].findall("line")[0]
        end = float(bar.get("x")) + float(bar.get("width"))
        self.assertEqual(bar.get("class"), "good")
        self.assertLess(float(whisker.get("x1")), end)
        self.assertLess(end, float(whisker.get("x2")))
        self.assertEqual(bars[1].find("rect").get("class"), "idle")
        self.assertEqual(bars[1].findall("line"), [])

    def test_every_drawing_stays_inside_its_frame(self):
        for drawing in self.root.iter("svg"):
            width, height = map(float, drawing.get("viewBox").split()[2:])
            for element in drawing.iter():
                for name, limit in (("x", width), ("x1", width), ("x2", width), ("y", height), ("y1", height),
                                    ("y2", height)):
                    if element.get(name):
                        self.assertTrue(0 <= float(element.get(name)) <= limit, ElementTree.tostring(element))


    def test_a_browser_shows_it(self):
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if not browser:
            self.skipTest("no Chromium")
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "page.html").write_text(self.text)
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                       f"--user-data-dir={folder}/profile", "--dump-dom", f"file://{folder}/page.html"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("CONSOLE", done.stderr)
        for tag in ("tr", "rect", "section", "data", "title"):
            drawn, written = (len(re.findall(f"<{tag}[ >]", text)) for text in (done.stdout, self.text))
            self.assertEqual(drawn, written, tag)


class Sources(unittest.TestCase):
    def test_several_processes_are_added(self):
        _, root = page_of({"processes": [REPORT, REPORT, {}]})
        self.assertEqual(values(find(root, "trials")), [2406])
        self.assertEqual(values(find(root, "rejections")), [8, 10, 12, 2034, 4, 2])

    def test_the_stores_report_tells_of_plans(self):
        store = {"source": "store", "sites": [dict(SITES[0], calls=0, before_us=None)],
                 "tuning": {"trials": 77, "quarantined": 3}}
        text, root = page_of(store)
        self.assertEqual((values(find(root, "known")), values(find(root, "trials"))), ([1], [77]))
        self.assertEqual(values(find(root, "rejections")), [3])
        self.assertEqual(len(find(root, "gains").findall("div/svg/g")), 1)
        self.assertIn("against the plan before it", text)

    def test_nothing_and_much_are_pages_too(self):
        _, root = page_of({"sites": [], "tuning": {}})
        self.assertIn("No operation has been timed", words(root))
        many = [dict(SITES[0], op=f"matmul m={m} k=8 n=8") for m in range(1, 1201)]
        _, root = page_of({"sites": many, "tuning": {}})
        self.assertEqual(len(find(root, "sites").findall("tbody/tr")), 1000)
        self.assertIn("And 200 more operations.", words(root))
        self.assertIn("1,160 more in the table below", words(root))

    def test_extreme_ratios_are_drawn(self):
        for ratio in (1e-6, 1e-2, 0.5, 1, 1e2, 1e9):
            site = dict(SITES[0], before_us=ratio, now_us=1.0,
                        gain={"ratio": ratio, "low": ratio * 1e-3, "high": ratio * 1e3})
            _, root = page_of({"sites": [site], "tuning": {}})
            for element in find(root, "gains").iter("line"):
                self.assertTrue(300 < float(element.get("x1")) < 960 and 300 < float(element.get("x2")) < 960)

    def test_what_is_no_report_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "other.json"
            path.write_text("[1]")
            for arguments in ([str(path)], [f"{folder}/none.json"]):
                result = whet("report", "--html", "--from", *arguments)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertRegex(result.stderr, re.escape(arguments[0]))
        self.assertEqual(whet("report", "--from", "x", "12").returncode, 2)


if __name__ == "__main__":
    WHET = sys.argv.pop(1)
    unittest.main()
