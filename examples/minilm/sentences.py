#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints sentences of /usr/share/common-licenses in a fixed order, one per line.

usage: sentences.py [COUNT] [--source FOLDER]     without COUNT: every distinct sentence once
"""
import argparse
import pathlib
import random
import re
import sys
import unicodedata

SHORTEST, LONGEST = 20, 600  # characters: headings and tables are no sentences
SEED = 7


def sentences_of(text):
    """Splits a licence into sentences; blank lines end one too."""
    for paragraph in re.split(r"\n\s*\n", text):
        flat = re.sub(r"\s+", " ", paragraph).strip()
        for sentence in re.split(r"(?<=[.;:?!])\s+(?=[A-Z\"(])", flat):
            if SHORTEST <= len(sentence) <= LONGEST and sentence.isprintable():
                yield sentence


def collect(folder):
    """All distinct sentences, file by file in the order of names; links are the same texts again."""
    seen = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        text = unicodedata.normalize("NFC", path.read_text(encoding="utf-8", errors="replace"))
        for sentence in sentences_of(text):
            seen.setdefault(sentence)
    return list(seen)


def choose(sentences, count):
    """`count` lines, repeated when there are fewer; lengths mixed as in live traffic, not document by document."""
    mixed = list(sentences)
    random.Random(SEED).shuffle(mixed)
    return [mixed[i % len(mixed)] for i in range(count if count else len(mixed))] if mixed else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=0)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path("/usr/share/common-licenses"))
    arguments = parser.parse_args()
    lines = choose(collect(arguments.source), arguments.count)
    if not lines:
        sys.exit(f"sentences.py: no sentence in {arguments.source}")
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
