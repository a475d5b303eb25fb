"""Kernels: functions that loop over arrays. numba compiles each kernel once.

Later runs load the machine code of the kernels with LLVM, without numba.

Importing numba takes 60 MiB, and more time than most commands need for all their work. So only `compiler` imports
numba, and only if `cache.folder()` has no code for this processor.

NUMBA_DISABLE_JIT=1 runs kernels as Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar, cast

import llvmlite
import llvmlite.binding as llvm
import numpy as np
from numpy.typing import DTypeLike

from tiersnap.snapshot.kernels.cache import folder

_log = logging.getLogger(__name__)

IS_COMPILED = os.environ.get("NUMBA_DISABLE_JIT") != "1"
_DIGEST_BYTES = 32
_lock = threading.Lock()
Function = TypeVar("Function", bound=Callable[..., object])


class Kernel:
    """A compiled function, called like the Python function. Arguments are contiguous 1-D arrays and 64-bit integers.

    Attributes:
        arguments: the dtype of each array, None for a number.
        returns: count of returned numbers; a single number is returned without a tuple.
        unlocked: whether the kernel runs without the interpreter's lock (GIL).
    """

    def __init__(
        self,
        function: Callable[..., object],
        arguments: tuple[DTypeLike, ...],
        returns: int,
        *,
        inline: bool,
        unlocked: bool = False,
    ) -> None:
        self.function = function
        self.arguments = tuple(None if kind is int else np.dtype(kind) for kind in arguments)
        self.returns = returns
        self.inline = inline
        self.unlocked = unlocked
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self.__doc__ = function.__doc__
        self._results = ctypes.c_int64 * max(returns, 1)
        self._code: Callable[..., None] | None = None

    def __call__(self, *values: int | np.ndarray) -> int | tuple[int, ...]:
        """Run the kernel. Raises TypeError: an array has another dtype, or is not contiguous."""
        given: list[int] = []
        for value, kind in zip(values, self.arguments, strict=True):
            if kind is None:
                given.append(int(value))
                continue
            if isinstance(value, int):
                raise TypeError(f"{self.name}: an array of {kind} expected, found {value}")
            if (value.dtype is not kind and value.dtype != kind) or not value.flags.c_contiguous:
                raise TypeError(f"{self.name}: a contiguous array of {kind} expected, found one of {value.dtype}")
            given += (address_of(value), value.size)
        results = self._results()
        (self._code or self._loaded())(*given, results)
        return results[0] if self.returns == 1 else tuple(results)

    def _loaded(self) -> Callable[..., None]:
        kinds: list[type[ctypes.c_int64 | ctypes.c_void_p]] = []
        for kind in self.arguments:
            kinds += [ctypes.c_int64] if kind is None else [ctypes.c_void_p, ctypes.c_int64]
        # Releasing the interpreter's lock takes time in each call, so only long-running kernels do it. If a mapped file
        # shrinks during such a kernel, ctypes takes the lock for the signal handler of log.windows.
        prototype = ctypes.CFUNCTYPE if self.unlocked else ctypes.PYFUNCTYPE
        signature = prototype(None, *kinds, ctypes.POINTER(ctypes.c_int64))
        with _lock:
            if self._code is None:
                self._code = signature(_address(self))
        return self._code


def address_of(array: np.ndarray) -> int:
    """Return the address of the array's data: the pointer that follows the object's PyObject header.

    `array.ctypes.data` takes ten times as long.
    """
    return ctypes.c_size_t.from_address(id(array) + object.__basicsize__).value


def kernel(
    *arguments: DTypeLike, returns: int = 0, inline: bool = False, unlocked: bool = False
) -> Callable[[Function], Function]:
    """Return a decorator that turns a function into a Kernel. Other kernels may call the result."""

    def decorated(function: Function) -> Function:
        if not IS_COMPILED:
            return function
        return cast("Function", Kernel(function, arguments, returns, inline=inline, unlocked=unlocked))

    return decorated


def part(function: Function) -> Function:
    """Mark a function that kernels call, and that is compiled with them."""
    return _marked(function, "part")


def inlined(function: Function) -> Function:
    """Mark a function that is inlined into each kernel that calls it."""
    return _marked(function, "inlined")


def intrinsic(function: Function) -> Function:
    """Mark a function whose compiled version is in the module `intrinsics`, under the same name."""
    return _marked(function, "intrinsic")


def _marked(function: Function, mark: str) -> Function:
    function.kernel_mark = mark  # type: ignore[attr-defined]
    return function


@cache
def target_machine() -> llvm.TargetMachine:
    """Return LLVM's target machine for this processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


@cache
def _processor() -> str:
    """Return a digest of everything that changes the machine code, except the kernels' sources."""
    from tiersnap.snapshot.kernels.crc import HAS_LIBRARY

    numba = find_spec("numba")  # the time of its file replaces its version: importlib.metadata is slow to import
    made_by = Path(numba.origin).stat().st_mtime_ns if numba and numba.origin else 0
    parts = llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return hashlib.sha256(repr((made_by, llvmlite.__version__, HAS_LIBRARY, *parts)).encode()).hexdigest()[:12]


def _address(wanted: Kernel) -> int:
    code = llvm.ObjectFileRef.from_data(_machine_code(wanted))
    _engine().add_object_file(code)
    _engine().finalize_object()
    return int(_engine().get_function_address(wanted.name))


@cache
def _engine() -> llvm.ExecutionEngine:
    # The engine is never freed. That would unload its code, and free the target machine, which the compiler also uses.
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())


def _machine_code(wanted: Kernel) -> bytes:
    path = folder() / f"{wanted.name}-{_processor()}.o"
    with suppress(OSError):
        data = path.read_bytes()
        code = data[_DIGEST_BYTES:]
        if hashlib.sha256(code).digest() == data[:_DIGEST_BYTES]:
            return code
    from tiersnap.snapshot.kernels.compiler import compiled

    code = compiled(wanted)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not a NamedTemporaryFile: only its owner could read the file, but several users may share the folder.
        with tempfile.TemporaryDirectory(dir=path.parent) as room:
            file = Path(room) / path.name
            file.write_bytes(hashlib.sha256(code).digest() + code)
            file.replace(path)
        _log.debug("%s is compiled, and kept in %s", wanted.name, path)
    except OSError as error:
        _log.debug("%s is compiled, and not kept: %s: %s", wanted.name, path, error)
    return code
