"""What a module of a user's own does, as bytes that are the same in every process: its classes, their code, and its attributes."""

import contextlib
import dis
import functools
import hashlib
import io
import os
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_OWN_STATE = vars(nn.Module()).keys()
"""Attributes of every module: its parameters, buffers and parts, which are described elsewhere, its mode, and its hooks."""
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_INSTALLED = tuple(str(folder) + os.sep for folder in (Path(os.__file__).parent, Path(torch.__file__).parent, Path(__file__).parents[1]))


def behaviour(module: nn.Module) -> bytes:
    """Classes, code and attributes of a module and its parts; weights are not among them.

    Functions and classes of the user's own are their code and what it refers to, those of installed packages their names. Raises whatever
    error an attribute leads to that nothing can be said about, such as an open file.
    """
    writer = _Writer({id(each): name for name, each in module.named_modules()})
    for name, each in module.named_modules():
        if "_orig_mod" in each._modules:
            continue  # what torch.compile puts around a module does what that does
        attributes = {key: value for key, value in vars(each).items() if key not in _OWN_STATE}
        hidden = {key: each.get_buffer(key) for key in sorted(each._non_persistent_buffers_set)}
        hooks = [list(getattr(each, key).values()) for key in _HOOKS]
        writer.dump((name, type(each), attributes, hidden, hooks))
    return writer.file.getvalue()


class _Writer(pickle.Pickler):
    """Pickles what can be pickled, and describes what pickle names only or keeps differently from process to process; never read back."""

    def __init__(self, parts: dict[int, str]):
        self.file, self.parts, self.seen = io.BytesIO(), parts, dict[int, Any]()
        super().__init__(self.file, protocol=4)
        self.fast = True  # else it refers back to strings that Python happens to share

    def persistent_id(self, value: Any) -> Any:
        """The description of `value`, which is pickled in its place; None leaves it to pickle."""
        if isinstance(value, Tensor):
            content = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
            return "tensor", str(value.dtype), list(value.shape), hashlib.sha256(content.tobytes()).hexdigest()
        if id(value) in self.parts:
            return "part", self.parts[id(value)]
        if isinstance(value, torch.device):
            return "device"  # where a module is does not change what it does
        if isinstance(value, set | frozenset):
            return "set", sorted(value, key=repr)
        if isinstance(value, types.ModuleType):
            file = getattr(value, "__file__", None)
            return "module", value.__name__, None if _is_installed(file) else Path(str(file)).read_bytes()
        if isinstance(value, types.MethodType):
            return "method", value.__func__, value.__self__
        if isinstance(value, types.BuiltinFunctionType) and (value.__self__ is None or isinstance(value.__self__, type | types.ModuleType)):
            return "built-in", value.__qualname__
        if isinstance(value, types.CodeType):
            return "code", value.co_code, value.co_exceptiontable, value.co_names, value.co_consts
        if isinstance(value, property):
            return "property", value.fget
        if isinstance(value, staticmethod | classmethod | functools.cached_property):
            return type(value).__name__, value.func if isinstance(value, functools.cached_property) else value.__func__
        return self._defined(value) if isinstance(value, types.FunctionType | type) else None

    def _defined(self, value: Any) -> Any:
        """A function or class, whose code may refer to itself."""
        name = f"{value.__module__}.{value.__qualname__}"
        if id(value) in self.seen:
            return "again", name
        self.seen[id(value)] = value  # kept, so that nothing else gets its id
        if isinstance(value, type):
            module = sys.modules.get(value.__module__)
            known = value.__module__ != "__main__" and hasattr(module, value.__qualname__.partition(".")[0])
            installed = known and _is_installed(getattr(module, "__file__", None))
            return "class", name, None if installed else (value.__bases__, _contents(value))
        closure = []
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty one
                closure.append(cell.cell_contents)
        if _is_installed(value.__code__.co_filename):  # a decorator's, perhaps around the user's own
            return "function", name, closure
        used = {key: value.__globals__[key] for key in sorted(_global_names(value.__code__)) if key in value.__globals__}
        # What wraps another may keep anything in its defaults, as beartype does.
        defaults = None if hasattr(value, "__wrapped__") else (value.__defaults__, value.__kwdefaults__)
        return "function", value.__code__, closure, used, defaults


def _is_installed(file: str | None) -> bool:
    """Whether a file belongs to Python, torch or an installed package; what has no file is built in."""
    return file is None or file.startswith((*_INSTALLED, "<frozen ")) or not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _contents(cls: type) -> dict[str, Any]:
    """Methods and other attributes of a class, without what Python adds."""
    functions = (types.FunctionType, staticmethod, classmethod, property)
    slots = types.GetSetDescriptorType | types.MemberDescriptorType
    own = {name: value for name, value in vars(cls).items() if not isinstance(value, slots) and name != "_abc_impl"}
    return {name: own[name] for name in sorted(own) if isinstance(own[name], functions) or not name.startswith("__")}


def _global_names(code: types.CodeType) -> set[str]:
    """Names of globals that code, and functions inside of it, look up."""
    names = {str(each.argval) for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_global_names(each) for each in code.co_consts if isinstance(each, types.CodeType)))
