"""Whether anyone could notice that what a process holds comes to an end: open files, `__del__`, callbacks."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import compress
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

_HAS_GC: Final = 1 << 14
"""Py_TPFLAGS_HAVE_GC: objects of the type are among those of the garbage collector."""
_CALLBACKS_OF_PYTHON: Final = frozenset({"weakref", "_weakrefset", "logging"})
"""Modules whose callbacks of weak references take an entry out of a collection, and do nothing else."""
_SILENT_TYPES_OF_PYTHON: Final = frozenset({
    "_abc", "_ast", "_asyncio", "_bisect", "_blake2", "_bz2", "_codecs", "_collections", "_contextvars",
    "_csv", "_datetime", "_decimal", "_elementtree", "_functools", "_hashlib", "_heapq", "_hmac", "_imp",
    "_io", "_json", "_locale", "_lzma", "_md5", "_opcode", "_operator", "_pickle", "_posixsubprocess",
    "_queue", "_random", "_scproxy", "_sha1", "_sha2", "_sha256", "_sha3", "_sha512", "_signal", "_socket",
    "_sre", "_ssl", "_stat", "_statistics", "_string", "_struct", "_suggestions", "_symtable", "_sysconfig",
    "_thread", "_tokenize", "_tracemalloc", "_types", "_typing", "_uuid", "_warnings", "_weakref",
    "_zoneinfo", "array", "atexit", "binascii", "builtins", "cmath", "errno", "faulthandler", "fcntl", "gc",
    "grp", "itertools", "marshal", "math", "msvcrt", "nt", "posix", "pwd", "pyexpat", "resource", "select",
    "sys", "termios", "time", "unicodedata", "winreg", "zlib",
})  # fmt: skip
"""Modules in C whose objects hold nothing but memory and descriptors, unless their type has a `__del__`.

Not among them: sqlite3, which ends a journal as a connection goes, dbm, mmap, ctypes, multiprocessing, and
what asyncio needs on Windows (`_overlapped`, `_winapi`), which complains of operations that are pending.
"""
_SILENT_PACKAGES: Final = frozenset({
    "aiohttp", "frozenlist", "jiter", "jsonschema_rs", "multidict", "propcache", "pydantic_core", "rpds",
    "yaml", "yarl",
})  # fmt: skip
"""Packages of ours and of the framework of declared agents of which the same holds."""


def may_notice_end() -> bool:
    """Say whether something here ends noticeably: what is not known to end in silence counts as such.

    All that the collector knows is looked at, by its type, and no code of the user is called: 35 ms of CPU
    where it takes 300 ms and more to take it apart (`benchmarks/suites_agent.py`).
    """
    # What was frozen cannot be looked at.
    if gc.get_freeze_count() or gc.get_debug() or gc.callbacks:
        return True
    if _shows_resource_warnings() or _has_unknown_extension():
        return True
    objects = gc.get_objects()
    checks = _ChecksByType()
    # Not isinstance, which asks an object for its class, and so may call what is not ours.
    found = list(compress(objects, map(checks.__getitem__, map(type, objects))))
    standard = set(map(id, _standard_streams()))
    return any(checks[type(each)](each) and id(each) not in standard for each in found)


class _ChecksByType(dict[type, Any]):
    """Of each type what says of an object whether its end may be noticed; None if it never is."""

    def __missing__(self, kind: type) -> Callable[[Any], bool] | None:
        check = _check_of(kind)
        self[kind] = check
        return check


def _check_of(kind: type) -> Callable[[Any], bool] | None:
    """Return what says of an object of a type whether its end may be noticed; None if it never is."""
    definer = _definer_of_finalizer(kind)
    if definer is not None:
        return _CHECKS.get(definer, _always)
    if issubclass(kind, type):
        return _has_hidden_finalizer
    if issubclass(kind, weakref.ref):
        return _calls_back
    # Whether a proxy has a callback cannot be seen.
    return _always if issubclass(kind, weakref.ProxyTypes) else None


def _always(value: object) -> bool:
    return True


def _definer_of_finalizer(kind: type) -> str | None:
    """Return the name of the class that gives a type its `__del__`, None where it has none."""
    for base in kind.__mro__:
        if "__del__" in base.__dict__:
            return f"{base.__module__}.{base.__qualname__}"
    return None


def _has_hidden_finalizer(kind: type) -> bool:
    """Whether a type has a `__del__`, and the collector does not know its objects (empty `__slots__`)."""
    if kind.__flags__ & _HAS_GC:
        return False
    # The objects of these two say nothing but a ResourceWarning, which is not shown.
    return _definer_of_finalizer(kind) not in (None, "_socket.socket", "posix.ScandirIterator")


def _calls_back(reference: weakref.ref[Any]) -> bool:
    """Whether a weak reference calls somebody else's code when its object goes."""
    callback: Any = reference.__callback__
    if callback is None:
        return False
    if type(callback) is weakref.finalize:  # it has been called, unless it was made in a callback of `atexit`
        return callback.alive
    if type(callback) is BuiltinFunctionType:
        # Those of abstract classes and of threading.local are methods of a weak reference in C.
        return type(callback.__self__) is not weakref.ref
    return not (type(callback) is FunctionType and callback.__module__ in _CALLBACKS_OF_PYTHON)


def _is_open_file(file: Any) -> bool:
    return not (type(file).__module__ == "_io" and (type(file).__name__ in _IN_MEMORY or file.closed))


_IN_MEMORY: Final = ("BytesIO", "StringIO")
_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "_io._IOBase": _is_open_file,
    "_socket.socket": lambda socket: socket.fileno() != -1,
    "_asyncio.Task": lambda task: not task.done() or task._log_traceback,
    "_asyncio.Future": lambda future: future._log_traceback,
    "anyio.streams.memory.MemoryObjectReceiveStream": lambda stream: not stream._closed,
    "anyio.streams.memory.MemoryObjectSendStream": lambda stream: not stream._closed,
    "asyncio.base_events.BaseEventLoop": lambda loop: not loop.is_closed(),
    "asyncio.base_subprocess.BaseSubprocessTransport": lambda transport: not transport._closed,
    "asyncio.selector_events._SelectorTransport": lambda transport: transport._sock is not None,
    "asyncio.sslproto._SSLProtocolTransport": lambda transport: not transport._closed,
    "builtins.async_generator": lambda generator: generator.ag_frame is not None,
    "builtins.coroutine": lambda coroutine: coroutine.cr_frame is not None,
    "builtins.generator": lambda generator: generator.gi_suspended,
    "subprocess.Popen": lambda process: process.returncode is None,
}
"""By the class whose `__del__` it is: whether that has something left to do for an object."""


def _standard_streams() -> Iterator[Any]:
    """Return the streams that Python itself opens and writes out, with what is below them."""
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        buffer = getattr(stream, "buffer", None)
        yield from (stream, buffer, getattr(buffer, "raw", None))


def _shows_resource_warnings() -> bool:
    """Whether Python says of what is left open that it is (`-X dev`, `-W`)."""
    for action, message, category, module, _ in warnings.filters:
        if not issubclass(ResourceWarning, category):
            continue
        if action != "ignore":
            return True
        if message is None and module is None:
            return False
    return True


def _has_unknown_extension() -> bool:
    """Whether a module in C is loaded whose objects may do something as they end, without a `__del__`."""
    for name, module in list(sys.modules.items()):
        # Not getattr: some modules import others when they are asked for what they have not.
        file = getattr(module, "__dict__", {}).get("__file__")
        is_extension = isinstance(file, str) and file.endswith(tuple(EXTENSION_SUFFIXES))
        if not is_extension and name not in sys.builtin_module_names:
            continue
        if name not in _SILENT_TYPES_OF_PYTHON and name.partition(".")[0] not in _SILENT_PACKAGES:
            return True
    return False
