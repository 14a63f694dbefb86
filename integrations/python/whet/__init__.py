# SPDX-License-Identifier: Apache-2.0
"""Whet from Python: promise that weights stay as they are, and see what was gained.

    import whet
    whet.freeze(model)        # a torch module, a tensor, a NumPy array, or a list, tuple or dict of them
    print(whet.report())

Importing loads libwhet.so (the one that the process has already, else the one installed beside this package) and starts
nothing. Calls are tuned where a program's BLAS calls reach Whet: under `whet run`, or with libwhet_blas.so preloaded.
"""
import ctypes
import json
import pathlib

__all__ = ["WhetError", "freeze", "thaw", "frozen_bytes", "report", "enable", "disable", "pause", "resume", "pin", "drain",
           "version"]


class WhetError(RuntimeError):
    """A call that Whet refused; the text says what was got and what was expected."""


def _loaded_path():
    """The libwhet.so that this process has mapped, or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            path = line.rstrip("\n").partition("/")[2]
            if path.rsplit("/", 1)[-1] == "libwhet.so":
                return "/" + path
    return None


def _find_library():
    loaded = _loaded_path()
    if loaded:
        return loaded
    here = pathlib.Path(__file__)
    for parent in (*here.absolute().parents, *here.resolve().parents):
        for candidate in ("libwhet.so", "lib/libwhet.so", "build/release/lib/libwhet.so"):
            if (parent / candidate).is_file():
                return str(parent / candidate)
    return "libwhet.so"


_Write = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def _load():
    path = _find_library()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"whet: cannot load {path}: {error}") from error
    library.whet_freeze.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.whet_thaw.argtypes = [ctypes.c_void_p]
    library.whet_drain.argtypes = [ctypes.c_double]
    library.whet_report.argtypes = [ctypes.c_char_p, _Write, ctypes.c_void_p]
    library.whet_last_error.restype = ctypes.c_char_p
    library.whet_version.restype = ctypes.c_char_p
    return library


_library = _load()
_held = {}  # address -> [owner, bytes, promises]: what is promised must stay alive


def _check(status):
    if status != 0:
        raise WhetError(_library.whet_last_error().decode(errors="replace"))


def _leaves(thing):
    """Yields (address, bytes, owner) of every dense array in host memory inside `thing`."""
    if hasattr(thing, "named_parameters") and hasattr(thing, "named_buffers"):  # torch.nn.Module
        for _, tensor in list(thing.named_parameters()) + list(thing.named_buffers()):
            yield from _leaves(tensor)
    elif hasattr(thing, "untyped_storage"):  # torch.Tensor: its storage, so that views of it count too
        if thing.device.type != "cpu" or thing.layout is not _strided():
            return
        storage = thing.untyped_storage()
        if storage.nbytes() > 0:
            yield storage.data_ptr(), storage.nbytes(), storage
    elif hasattr(thing, "__array_interface__"):  # numpy.ndarray
        base = thing
        while getattr(base, "base", None) is not None and hasattr(base.base, "__array_interface__"):
            base = base.base
        if base.nbytes > 0:
            yield base.__array_interface__["data"][0], base.nbytes, base
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _leaves(value)
    elif isinstance(thing, (list, tuple)):
        for value in thing:
            yield from _leaves(value)
    else:
        raise TypeError(f"whet: got {type(thing).__name__}, expected a torch module or tensor, a NumPy array, or a container of them")


def _strided():
    import torch  # only reached with a tensor in hand
    return torch.strided


def freeze(thing):
    """Promises that the content of `thing` will not change until thaw(thing). Returns the bytes that are new.

    Whet keeps a reference, so that the memory stays. The parameters themselves are never altered.
    """
    new = 0
    for address, size, owner in _leaves(thing):
        known = _held.get(address)
        if known and known[1] == size:
            known[2] += 1
            continue
        _check(_library.whet_freeze(address, size))
        _held[address] = [owner, size, 1]
        new += size
    return new


def thaw(thing=None):
    """Takes promises back: of `thing`, or all. Afterwards the content may change."""
    addresses = list(_held) if thing is None else [address for address, _, _ in _leaves(thing)]
    for address in addresses:
        known = _held.get(address)
        if known is None:
            continue
        known[2] -= 1
        if known[2] > 0 and thing is not None:
            continue
        _check(_library.whet_thaw(address))
        del _held[address]


def frozen_bytes():
    """Bytes under promise."""
    return sum(size for _, size, _ in _held.values())


def report(format="text"):
    """What was tuned and gained: a string ("text", "prometheus"), or for "json" the parsed document."""
    parts = []
    write = _Write(lambda text, length, _: parts.append(ctypes.string_at(text, length)))
    _check(_library.whet_report(format.encode(), write, None))
    text = b"".join(parts).decode(errors="replace")
    return json.loads(text) if format == "json" else text


def enable():
    """Serves plans (the default)."""
    _check(_library.whet_enable())


def disable():
    """Sends every call to its original."""
    _check(_library.whet_disable())


def pause():
    """Serves, but tunes nothing."""
    _check(_library.whet_pause())


def resume():
    """Tunes again after pause()."""
    _check(_library.whet_resume())


def pin():
    """The table changes no more."""
    _check(_library.whet_pin())


def drain(seconds):
    """Waits until nothing is left to tune; False when the time was over before."""
    return _library.whet_drain(seconds) == 0


def version():
    """The version of the library."""
    return _library.whet_version().decode()
