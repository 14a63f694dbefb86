#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The line protocol of examples/minilm/embed.py, with a tiny model in place of MiniLM."""
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "minilm"))
import embed  # noqa: E402


class TinyEmbedding(bytes):
    def numpy(self):
        return self

    def tobytes(self):
        return bytes(self)


class TinyEmbedder:
    def embed(self, sentence):
        return TinyEmbedding(sentence.encode()), 0.001234


class Sink(io.StringIO):
    flushes = 0

    def flush(self):
        self.flushes += 1


class Protocol(unittest.TestCase):
    def answers(self, text):
        sink = Sink()
        embeddings = embed.serve(TinyEmbedder(), io.StringIO(text), sink)
        return sink, sink.getvalue().splitlines(), embeddings

    def test_one_line_per_line(self):
        sink, lines, embeddings = self.answers("a\n\nb\na\n")
        self.assertEqual(len(lines), 4)
        self.assertEqual(sink.flushes, 4)
        self.assertEqual(len(embeddings), 4)

    def test_digest_and_microseconds(self):
        _, lines, _ = self.answers("a\nb\na\n")
        for line in lines:
            digest, microseconds = line.split()
            self.assertEqual(len(digest), 16)
            self.assertEqual(microseconds, "1234")
        self.assertEqual(lines[0], lines[2])
        self.assertNotEqual(lines[0], lines[1])

    def test_no_line_no_answer(self):
        self.assertEqual(self.answers("")[1], [])


if __name__ == "__main__":
    unittest.main()
