#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed product in the hands of an ordinary user, far from where it was built.

usage: installed_product_test.py CMAKE BUILD SOURCE

Installs into a prefix, moves the prefix, hides the sources, the build and the caller's home (a mount namespace), and
runs `PREFIX/bin/whet run -- python3 app.py` as `nobody`: it must tune and swap, and open nothing but the prefix, the
system and the user's own files, as strace tells. What the machine does not allow (namespaces, tracing) is left out and
said; without NumPy in the system's Python the test is skipped (exit 77).
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from store_folder import store_folder  # noqa: E402

SKIPPED = 77
PYTHON = "/usr/bin/python3"
NOBODY = "65534"
SECONDS = (6, 12, 24, 48)  # of the program, until a plan serves: a busy machine needs longer
SYSTEM = ("/usr/", "/lib/", "/lib64/", "/etc/", "/proc", "/sys/", "/dev/", "/bin/", "/sbin/", "/var/cache/", "/run/")
HELPERS = ("lib/libwhet_blas.so", "lib/libwhet.so", "lib/whet/whet-forge", "lib/whet/libwhet_llvm.so",
           "lib/whet/microkernels.bin")


def works(*command):
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def whole_calls(trace):
    """strace's lines, calls that it tells in two halves put together."""
    halves, lines = {}, []
    for line in trace.splitlines():
        process, _, call = line.partition(" ")
        if call.endswith(" <unfinished ...>"):
            halves[process] = line.removesuffix(" <unfinished ...>")
        elif resumed := re.match(r" *<\.\.\. \w+ resumed>(.*)", call):
            lines.append(halves.pop(process, "") + resumed.group(1))
        else:
            lines.append(line)
    return "\n".join(lines + list(halves.values())) + "\n"


class Product:
    def __init__(self, cmake, build, folder):
        first, self.prefix = folder / "first", folder / "elsewhere"
        subprocess.run([cmake, "--install", build, "--prefix", first], check=True, capture_output=True)
        first.rename(self.prefix)
        self.home = folder / "home"
        self.home.mkdir(mode=0o777)
        self.home.chmod(0o777)
        program = folder / "program"
        program.mkdir()
        self.app = shutil.copy(pathlib.Path(__file__).with_name("app.py"), program)
        self.trace = self.home / "trace"
        folder.chmod(0o755)

    def environment(self):
        return {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1", "WHET_FORCE": "whet",
                "WHET_BUDGET_CPU": "1", "TMPDIR": str(self.home), "LANG": "C.UTF-8"}

    def run(self, seconds, hidden, traced):
        """One run; its report, or an error that ends the test."""
        report = self.home / "report.json"
        command = [str(self.prefix / "bin/whet"), "run", "--json", str(report), "--", PYTHON, self.app, str(seconds)]
        if traced:
            calls = "open,openat,execve,connect,readlink,access,stat,newfstatat"
            command = ["strace", "-f", "-qq", "-s", "4096", "-o", str(self.trace), "-e", f"trace={calls}", *command]
        if os.getuid() == 0:
            command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
        if hidden:
            mounts = "".join(f"mount -t tmpfs none '{path}' && " for path in hidden)
            command = ["unshare", "--mount", "sh", "-c", mounts + 'exec "$@"', "sh", *command]
        done = subprocess.run(command, env=self.environment(), cwd="/", capture_output=True, text=True, timeout=240)
        if done.returncode != 0 or done.stdout != "every product was right\n":
            sys.exit(f"whet run ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(report.read_text()), done.stderr

    def strangers(self, forbidden):
        """What was opened outside the prefix, the system and the user's home; what was asked for below `forbidden`."""
        text = whole_calls(self.trace.read_text(errors="replace"))
        allowed = SYSTEM + (str(self.prefix), str(self.home), os.path.dirname(self.app))
        opened = {path for path, result in re.findall(r'open(?:at)?\([^"]*"(/[^"]+)"[^\n]* = (\d+)', text)}
        opened |= {path for path, result in re.findall(r'execve\("([^"]+)"[^\n]* = (0)', text)}
        found = {path for path in opened if not path.startswith(allowed) and path not in ("/", "/tmp")}
        asked = set(re.findall(r'"(/[^"]*)"', text))
        found |= {path for path in asked for root in forbidden if path == root or path.startswith(root + "/")}
        missing = [name for name in HELPERS if str(self.prefix / name) not in opened]
        return sorted(found), missing


def main():
    cmake, build, source = sys.argv[1:]
    if not works(PYTHON, "-c", "import numpy"):
        print("no NumPy in the system's Python")
        return SKIPPED
    with store_folder("whet-installed-") as name:
        folder = pathlib.Path(name)
        product = Product(cmake, build, folder)
        forbidden = sorted({source, build, os.path.realpath(os.path.join(source, ".venv")), str(folder / "first")})
        hidden = [path for path in forbidden + [os.path.expanduser("~")] if os.path.isdir(path)]
        hidden = [path for path in hidden if not name.startswith(path + "/")]
        # The shortest path first: what lies below it is gone with it.
        hidden = [path for path in hidden if not any(path.startswith(other + "/") for other in hidden)]
        if not works("unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"):
            print("no mount namespaces here: the build tree stays visible")
            hidden = []
        traced = works("strace", "-o", "/dev/null", "true")
        if not traced:
            print("no tracing here: what is opened is not looked at")
        for seconds in SECONDS:
            report, said = product.run(seconds, hidden, traced)
            sites = [site for process in report["processes"] for site in process["sites"]]
            tuning = [process["tuning"] for process in report["processes"] if "tuning" in process]
            served = any(site["served"] == "whet" and site["op"].startswith("matmul") for site in sites)
            if served and sum(one["trials"] for one in tuning) > 0 and sum(one["compiles"] for one in tuning) > 0:
                break
        else:
            sys.exit(f"nothing was tuned and swapped\n{json.dumps(report, indent=1)}\n{said}")
        if traced:
            found, missing = product.strangers(forbidden)
            if found or missing:
                sys.exit(f"opened outside: {found}\nnot opened beside the library: {missing}")
        if not (product.home / ".cache/whet/store.db").exists():
            sys.exit("no store in the user's cache")
    print(f"tuned and swapped within {seconds} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
