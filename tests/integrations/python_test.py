#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the Python package: promises, reports, errors; NumPy where it is installed."""
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, sys.argv.pop(1) if len(sys.argv) > 1 else "integrations/python")
threads_before = threading.active_count()
import whet  # noqa: E402


class Buffer:
    """The part of a NumPy array that whet looks at."""

    def __init__(self, size):
        import ctypes
        self.memory = (ctypes.c_char * size)()
        self.nbytes = size
        self.__array_interface__ = {"data": (ctypes.addressof(self.memory), False)}


def task_count():
    return len(list(pathlib.Path("/proc/self/task").iterdir()))


class Whet(unittest.TestCase):
    def test_import_starts_nothing(self):
        self.assertEqual(task_count(), threads_before)

    def test_freeze_counts_and_holds(self):
        one, two = Buffer(64), Buffer(128)
        self.assertEqual(whet.freeze([one, {"b": two}]), 192)
        self.assertEqual(whet.freeze(one), 0)
        self.assertEqual(whet.frozen_bytes(), 192)
        whet.thaw(one)
        self.assertEqual(whet.frozen_bytes(), 192)
        whet.thaw(one)
        self.assertEqual(whet.frozen_bytes(), 128)
        whet.thaw()
        self.assertEqual(whet.frozen_bytes(), 0)

    def test_wrong_things_are_refused(self):
        with self.assertRaises(TypeError):
            whet.freeze(3)
        with self.assertRaises(whet.WhetError) as caught:
            whet.report("xml")
        self.assertIn('got report format "xml"', str(caught.exception))

    def test_reports(self):
        self.assertIn("whet:", whet.report())
        self.assertIn("sites", whet.report("json"))
        self.assertIn("whet_calls_total", whet.report("prometheus"))

    def test_switches(self):
        for switch in (whet.disable, whet.enable, whet.pause, whet.resume):
            switch()
        self.assertRegex(whet.version(), r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
