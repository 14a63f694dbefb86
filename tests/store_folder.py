# SPDX-License-Identifier: Apache-2.0
"""A folder for the stores of programs under Whet."""
import contextlib
import shutil
import tempfile
import time

PATIENCE = 100  # seconds, for helpers of the lowest priority on a busy machine
PAUSE = 0.05    # seconds between two attempts


@contextlib.contextmanager
def store_folder(prefix="whet-store-"):
    """The folder's path. A program's helper may outlive it for a moment and still write to its store: at the end the
    folder is removed once nothing comes after."""
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield folder
    finally:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                shutil.rmtree(folder)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(PAUSE)
