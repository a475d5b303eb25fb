"""Compile a kernel with numba and LLVM to an object file that runs without numba.

The object file exports one C function (numba.cfunc) that calls the kernel. All other functions in the file are private.
So LLVM can prove that no exception leaves the kernel, and removes numba's code for exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Protocol, cast

import llvmlite.binding as llvm
import numba
from numba import carray, types  # type: ignore[attr-defined]

from tiersnap.snapshot.kernels import intrinsics
from tiersnap.snapshot.kernels.native import Kernel, target_machine


class _CFunction(Protocol):
    """Numba's CFunc."""

    native_name: str

    def inspect_llvm(self) -> str:
        """Return the function's module in LLVM's assembly language."""


# Prefixes of the external symbols that an object file may have; the loader resolves them.
_OUTSIDE = ("llvm.", "crc32c_extend", "memset", "memcpy")


def compiled(kernel: Kernel) -> bytes:
    """Return an object file with one C function under the kernel's name.

    The function takes the kernel's arguments in order: for an array its address and its size, for a number an int64.
    The last argument is the address of the results, int64 each.

    Raises:
        NotImplementedError: the kernel could raise an exception or allocate memory.
    """
    with _own_settings():
        function = _c_function(kernel)
    module = llvm.parse_assembly(function.inspect_llvm())
    for defined in module.functions:
        if defined.name == function.native_name:
            defined.name = kernel.name
        elif not defined.is_declaration:
            defined.linkage = "internal"
    machine = target_machine()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    outside = [each.name for each in module.functions if each.is_declaration and not each.name.startswith(_OUTSIDE)]
    if outside:
        raise NotImplementedError(f"{kernel.name} would need {', '.join(outside)}")
    return bytes(machine.emit_object(module))


@contextmanager
def _own_settings() -> Iterator[None]:
    """Use fixed compiler settings, and ignore NUMBA_BOUNDSCHECK, NUMBA_DEBUGINFO, NUMBA_DISABLE_JIT and NUMBA_OPT."""
    settings = vars(numba.config)
    own = {"BOUNDSCHECK": 0, "DEBUGINFO_DEFAULT": 0, "DISABLE_JIT": 0, "OPT": type(settings["OPT"])(3)}
    given = {name: settings[name] for name in own}
    settings.update(own)
    try:
        yield
    finally:
        settings.update(given)


def _c_function(kernel: Kernel) -> _CFunction:
    signature: list[types.Type] = []
    names, passed = [], []
    for index, kind in enumerate(kernel.arguments):
        if kind is None:
            signature.append(types.int64)
            names.append(f"a{index}")
            passed.append(f"a{index}")
        else:
            signature += [types.CPointer(numba.from_dtype(kind)), types.int64]
            names += [f"a{index}", f"n{index}"]
            passed.append(f"carray(a{index}, (n{index},))")
    call = f"kernel({', '.join(passed)})"
    lines = {0: [call], 1: [f"results[0] = {call}"]}.get(
        kernel.returns, [f"found = {call}", *(f"results[{i}] = found[{i}]" for i in range(kernel.returns))]
    )
    source = f"def wrapper({', '.join([*names, 'results'])}):\n" + "".join(f"    {line}\n" for line in lines)
    scope: dict[str, object] = {"kernel": jitted(kernel.function), "carray": carray}
    exec(source, scope)
    as_c = numba.cfunc(types.void(*signature, types.CPointer(types.int64)))
    return cast("_CFunction", as_c(cast("Callable[[], None]", scope["wrapper"])))


@cache
def jitted(function: Callable[..., object], *, inline: bool = False) -> Callable[..., object]:
    """Return numba's version of the function. Functions that the function calls are compiled, too."""
    scope = dict(function.__globals__)
    for name in scope.keys() & set(function.__code__.co_names):
        scope[name] = _translated(scope[name])
    copy = FunctionType(function.__code__, scope, function.__name__)
    return numba.njit(copy, inline="always" if inline else "never")


def _translated(value: object) -> object:
    """Return the value that replaces a global of a kernel when numba compiles the kernel."""
    if isinstance(value, Kernel):
        return jitted(value.function, inline=value.inline)
    mark = getattr(value, "kernel_mark", "")
    if not isinstance(value, FunctionType) or not mark:
        return value
    if mark == "intrinsic":
        return cast("object", getattr(intrinsics, value.__name__))
    return jitted(value, inline=mark == "inlined")
