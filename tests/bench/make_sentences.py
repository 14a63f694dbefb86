#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes sentences.txt, the input of `whet bench app`: 2,000 sentences of /usr/share/common-licenses in a fixed order.

usage: make_sentences.py [OUT]
"""
import pathlib
import subprocess
import sys

COUNT = 2000


def main():
    here = pathlib.Path(__file__).resolve().parent
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "sentences.txt"
    script = here.parents[1] / "examples" / "minilm" / "sentences.py"
    out.write_bytes(subprocess.run([sys.executable, script, str(COUNT)], check=True, capture_output=True).stdout)


if __name__ == "__main__":
    main()
