#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sentences of the application bench: 2,000 committed lines, and a script that makes the same ones every time."""
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "examples" / "minilm"))
import sentences  # noqa: E402


class Sentences(unittest.TestCase):
    def test_committed_file(self):
        lines = (HERE / "sentences.txt").read_text(encoding="utf-8").split("\n")
        self.assertEqual(lines.pop(), "")
        self.assertEqual(len(lines), 2000)
        self.assertTrue(all(line.strip() for line in lines))

    def test_splits_in_a_fixed_order(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "B").write_text("The second file holds one sentence.\n\nToo short.\n")
            (path / "A").write_text("The first sentence goes\nover two lines. The next one follows it here.\n")
            (path / "C").symlink_to(path / "A")
            found = sentences.collect(path)
        self.assertEqual(found, ["The first sentence goes over two lines.", "The next one follows it here.",
                                 "The second file holds one sentence."])
        self.assertEqual(sentences.choose(found, 7), sentences.choose(found, 7))
        self.assertEqual(len(sentences.choose(found, 7)), 7)
        self.assertEqual(sorted(sentences.choose(found, 0)), sorted(found))


if __name__ == "__main__":
    unittest.main()
