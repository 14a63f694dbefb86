#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon MiniLM has its gain: forward times under Whet against those without it, in windows of time.

usage: ramp.py [--seconds 300] [--window 10] [--whet build/release/bin/whet]

Runs examples/minilm/embed.py --freeze three times on the same sentences in the same order: without Whet; under `whet run`
on an empty store for --seconds; under `whet run` again on that store for 400 requests; and without Whet once more, so that
drift of the machine shows. Every request is compared with the same sentence of the runs without Whet. Prints one JSON object.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from store_folder import store_folder  # noqa: E402

SENTENCES = 500  # then from the start again
SECOND_RUN = 400  # requests


class Program:
    """embed.py, one sentence after the other."""

    def __init__(self, prefix, store):
        environment = dict(os.environ, WHET_STORE=store)
        command = [*prefix, str(ROOT / ".venv/bin/python"), str(ROOT / "examples/minilm/embed.py"), "--freeze"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, bufsize=1, env=environment)

    def ask(self, sentence):
        """Microseconds of the forward pass."""
        self.process.stdin.write(sentence + "\n")
        return float(self.process.stdout.readline().split()[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def without_whet(sentences, passes):
    """Median forward time of each sentence."""
    program = Program([], "none")
    program.ask(sentences[0])
    times = [[program.ask(sentence) for sentence in sentences] for _ in range(passes)]
    program.close()
    return [statistics.median(column) for column in zip(*times)]


def with_whet(whet, store, sentences, seconds, requests):
    """[(seconds since the first request, index of the sentence, microseconds)]"""
    program = Program([whet, "run", "--"], store)
    begin = None
    answers = []
    while len(answers) < requests and (begin is None or time.monotonic() - begin < seconds):
        index = len(answers) % len(sentences)
        us = program.ask(sentences[index])
        begin = begin or time.monotonic()
        answers.append((time.monotonic() - begin, index, us))
    program.close()
    return answers


def gain(answers, base):
    return statistics.median(base[index] / us for _, index, us in answers) if answers else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--window", type=float, default=10)
    parser.add_argument("--whet", default=str(ROOT / "build/release/bin/whet"))
    arguments = parser.parse_args()
    sentences = (ROOT / "tests/bench/sentences.txt").read_text(encoding="utf-8").splitlines()[:SENTENCES]
    with store_folder() as folder:
        store = os.path.join(folder, "store.db")
        before = without_whet(sentences, 3)
        first = with_whet(arguments.whet, store, sentences, arguments.seconds, sys.maxsize)
        second = with_whet(arguments.whet, store, sentences, float("inf"), SECOND_RUN)
        after = without_whet(sentences, 2)
    base = [(a + b) / 2 for a, b in zip(before, after)]
    windows = []
    for number in range(int(arguments.seconds / arguments.window)):
        low, high = number * arguments.window, (number + 1) * arguments.window
        windows.append(gain([one for one in first if low <= one[0] < high], base))
    late = [one for one in first if one[0] >= 0.8 * arguments.seconds]
    final = gain(late, base)
    same = gain([one for one in late if one[1] < 200], base)  # sentences of the second run's first requests
    within = next((round((number + 1) * arguments.window) for number, value in enumerate(windows)
                   if value and value - 1 >= 0.9 * (final - 1)), None)
    print(json.dumps({"final_gain": final, "seconds_to_90_percent": within, "windows": windows,
                      "second_run": {"first_200": gain(second[:200], base), "next_200": gain(second[200:], base),
                                     "first_run_at_its_end_on_the_first_200": same},
                      "drift": statistics.median(b / a for a, b in zip(before, after))}, indent=2))


if __name__ == "__main__":
    main()
