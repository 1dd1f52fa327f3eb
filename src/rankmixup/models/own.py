"""A user's own module in the place of a network by name: it is named by a fingerprint."""

import hashlib
import re
import warnings

import torch
from torch import Tensor, nn

from rankmixup.errors import require, shown
from rankmixup.files import reason
from rankmixup.models.code import behaviour

_NAME = re.compile("own:(?:([0-9a-f]{6})-)?[0-9a-f]{12}")
_UNTOLD = "000000"
"""In the place of a hash of code and attributes that cannot be told."""


def is_own(name: str) -> bool:
    """Whether `name` is that of a user's own module."""
    return name.startswith("own:")


def check_own_name(name: str) -> None:
    """Raise `InvalidInput` unless `name` is one that `own_name` gives."""
    rule = "the name of a module of your own must be own: and hexadecimal digits, 6 and 12 of them"
    require(_NAME.fullmatch(name) is not None, f"{rule}, got {shown(name)}")


def own_name(module: nn.Module, known_as: str = "") -> str:
    """The name of a user's own module, `own:CODE-REST`: hashes of its code and attributes, and of weights, buffers and what is frozen.

    Two modules of one name start training at the same point and do the same. Where code and attributes cannot be told, `known_as`, which is
    part of the hash, tells it from others.
    """
    require(isinstance(module, nn.Module), f"model must be a torch.nn.Module, got {shown(module)}")
    wrapped = isinstance(module, nn.parallel.DistributedDataParallel | nn.DataParallel)
    require(not wrapped, "model must not be wrapped in DistributedDataParallel or DataParallel: rm.train takes care of devices")
    # Addresses differ from process to process.
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(module)).encode())
    digest.update(known_as.encode())
    code, error = _code_hash(module)
    again = "give rm.train a name= for it, and another one whenever its code or attributes change"
    rule = "model must have code and attributes that can be told from others'"
    require(error is None or known_as != "", f"{rule}, which these cannot ({type(error).__name__}: {error and reason(error)}): {again}")
    if evaluated := evaluated_parts(module):
        digest.update(f"evaluated {evaluated}".encode())
    trained = {name: parameter.requires_grad for name, parameter in module.named_parameters()}
    require(any(trained.values()), "model must have parameters that are trained, got none")
    for name, value in module.state_dict().items():
        if not isinstance(value, Tensor):
            continue
        held = not (value.is_meta or nn.parameter.is_lazy(value))
        require(held, f"model must have all its weights before it is trained, {name} has none yet")
        digest.update(f"{name} {value.dtype} {list(value.shape)} {trained.get(name)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return f"own:{code}-{digest.hexdigest()[:12]}"


def warn_unless_same(module: nn.Module, name: str) -> None:
    """Warn if a module that takes weights has other code or attributes than the one of this name, as far as that can be told."""
    found, (code, _) = _NAME.fullmatch(name), _code_hash(module)
    # There is none for a run of version 0.2.
    if found and found[1] and _UNTOLD not in (found[1], code) and found[1] != code:
        rule = f"model must have the code and attributes of the module that was trained, {name}, but theirs is {code}"
        warnings.warn(f"{rule}; unless only Python's version differs, predictions are others than the run's", stacklevel=4)


def _code_hash(module: nn.Module) -> tuple[str, Exception | None]:
    """Six digits for code and attributes, or why there are none."""
    try:
        return hashlib.sha256(behaviour(module)).hexdigest()[:6], None
    except Exception as error:  # a user's attributes can raise any
        return _UNTOLD, error


def evaluated_parts(module: nn.Module) -> tuple[str, ...]:
    """Names of the parts that are in evaluation mode, such as frozen BatchNorm, and stay in it while the others are trained.

    Of a module that is in evaluation mode as a whole, as those are that were just loaded, the parts without a parameter that is trained.
    """
    parts = dict(module.named_modules())
    if any(part.training for part in parts.values()):
        return tuple(name for name, part in parts.items() if not part.training)
    frozen = {inner for part in parts.values() if not _trains(part) for inner in part.modules()}
    return tuple(name for name, part in parts.items() if part in frozen)


def _trains(part: nn.Module) -> bool:
    """Whether a part has a parameter that is trained, or none at all."""
    wanted = [parameter.requires_grad for parameter in part.parameters()]
    return any(wanted) or not wanted


def train_all_but(module: nn.Module, evaluated: tuple[str, ...]) -> None:
    """Training mode for all parts but those of these names."""
    module.train()
    for name in evaluated:
        module.get_submodule(name).training = False
