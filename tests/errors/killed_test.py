#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments: of any of the helper's processes (the program goes on, a helper comes again, after longer
and longer pauses, and is counted), and of the program (its helper ends, the store is whole).

usage: killed_test.py LIBRARY PROGRAM helper|program [ROUNDS]
"""
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from bad_day import HOST_STATUS, PATIENCE, Host, environment, read, store_folder

SEED = int(os.environ.get("SEED", "20261201"))
TUNED = {"WHET_FORCE": "whet", "WHET_BUDGET_CPU": "1", "WHET_FORGE": "process"}
MOST_RESTARTS = 8  # of one program
KILLS = 4          # of a helper, in one program
SECONDS = 5        # in which every helper is killed


def helpers(store):
    """Processes of helpers with this store, by the variables that they were started with."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            name = os.readlink(f"/proc/{entry}/exe")
        except (OSError, ValueError):
            continue
        if f"WHET_STORE={store}".encode() in variables and os.path.basename(name).startswith("whet-forge"):
            found.append(int(entry))
    return found


def kill_all(processes):
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass


def wait_for(what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.01)
    return what()


def problem_of(store):
    """None for a store that is whole, or not made yet."""
    if not os.path.exists(store):
        return None
    database = sqlite3.connect(store)
    try:
        state = database.execute("PRAGMA integrity_check").fetchone()[0]
        return None if state == "ok" else state
    except sqlite3.Error as error:
        return str(error)
    finally:
        database.close()


def kill_helpers(host, folder, dice):
    """One program; its helpers, or one of their processes, are killed now and then."""
    store, report = os.path.join(folder, "store.db"), os.path.join(folder, "report.json")
    enough = os.path.join(folder, "enough")
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([host.program, "0", "served", "until", enough, "report", report],
                                   env=environment(host.library, {**TUNED, "WHET_STORE": store}), stdout=out, stderr=said)
        kills = 0
        while kills < KILLS and process.poll() is None:
            if not wait_for(lambda: helpers(store)):
                break
            time.sleep(dice.random() * 0.3)
            victims = helpers(store)
            if not victims:
                continue
            kill_all(victims if dice.random() < 0.5 else [dice.choice(victims)])
            kills += 1
        alive = process.poll() is None
        back = wait_for(lambda: helpers(store) or process.poll() is not None)
        open(enough, "w", encoding="utf-8").close()
        status = process.wait()
        output, lines = read(out), read(said)
    if not alive or kills < KILLS or not back:
        return f"the program ended early, or no helper came again: {kills} kills, exit {status}\n{output}{lines}"
    if status != HOST_STATUS or output != host.output or lines:
        return f"exit {status}, expected {HOST_STATUS}; said {lines!r}; output {output!r}"
    with open(report, encoding="utf-8") as file:
        tuning = json.load(file)["tuning"]
    if not 0 <= tuning["forge_restarts"] <= MOST_RESTARTS:
        return f"forge_restarts is {tuning['forge_restarts']}"
    if not wait_for(lambda: not helpers(store)):
        return "a helper outlived its program"
    return problem_of(store)


def end_every_helper(host, folder):
    """Every helper is killed as it comes: the pauses between two grow."""
    store, report = os.path.join(folder, "always.db"), os.path.join(folder, "always.json")
    enough = os.path.join(folder, "enough_of_it")
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([host.program, "0", "until", enough, "report", report],
                                   env=environment(host.library, {**TUNED, "WHET_STORE": store}), stdout=out, stderr=said)
        begin = time.monotonic()
        while process.poll() is None and time.monotonic() < begin + SECONDS:
            kill_all(helpers(store))
            time.sleep(0.01)
        seconds = time.monotonic() - begin
        open(enough, "w", encoding="utf-8").close()
        status = process.wait()
        output, lines = read(out), read(said)
    if status != HOST_STATUS or output != host.output or lines:
        return f"exit {status}; said {lines!r}; output {output!r}"
    with open(report, encoding="utf-8") as file:
        restarts = json.load(file)["tuning"]["forge_restarts"]
    # Half a second, then twice as long each time. A killed helper of the lowest priority may take a while to end.
    most = next(n for n in range(1, 30) if 0.5 * (2 ** n - 1) > seconds)
    return None if 1 <= restarts <= most else f"{restarts} ends of helpers in {seconds:.1f} s, expected 1 to {most}"


def kill_program(host, folder, dice):
    """A program is killed at a random moment of its first second."""
    store = os.path.join(folder, "store.db")  # of all rounds: what one leaves, the next one meets
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([host.program, "100000"], env=environment(host.library, {**TUNED, "WHET_STORE": store}),
                                   stdout=said, stderr=said)
        time.sleep(dice.random() ** 2)
        process.kill()
        process.wait()
        lines = read(said)
    if lines:
        return f"it said {lines!r}"
    if not wait_for(lambda: not helpers(store)):
        return f"a helper outlived its program: {helpers(store)}"
    return problem_of(store)


def main():
    library, program, victim = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    host = Host(library, program)
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    with store_folder() as folder:
        for number in range(rounds):
            kill = kill_helpers if victim == "helper" else kill_program
            place = os.path.join(folder, str(number) if victim == "helper" else "all")
            os.makedirs(place, exist_ok=True)
            problem = kill(host, place, dice)
            if problem:
                print(f"round {number}: {problem}")
                return 1
        if victim == "helper":
            problem = end_every_helper(host, folder)
        else:
            lines, problem = host.run({**TUNED, "WHET_STORE": os.path.join(folder, "all", "store.db")}, "served")
            problem = problem or lines
        if problem:
            print(f"at the end: {problem}")
            return 1
    print(f"{rounds} rounds: whoever is killed, the rest goes on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
