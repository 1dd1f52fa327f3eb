"""Python files that the user asks to run, with `--plugin FILE` or RANKMIXUP_PLUGINS, so that what they register can be used.

They are loaded when this module is imported, as its sub-modules. So another process, which inherits the variable, can unpickle
an object of a class in such a file: Python imports this module first. Beside the entry points of installed packages, nothing
else in the library runs code from outside.
"""

import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path

from rankmixup.errors import InvalidInput, require

_VARIABLE = "RANKMIXUP_PLUGINS"


def load_plugins() -> None:
    """Run each file that RANKMIXUP_PLUGINS names, separated by commas or as PATH is, once in a process.

    A file that cannot be loaded stops no other, and is tried again by the next call.
    """
    listed = re.split(f"[,{re.escape(os.pathsep)}]", os.environ.get(_VARIABLE, ""))
    files = dict.fromkeys(Path(file.strip()).resolve() for file in listed if file.strip())
    if files:
        os.environ[_VARIABLE] = os.pathsep.join(map(str, files))  # absolute, for processes that start in another folder
    failed = []
    for file in files:
        # The same name in every process, and another one for a file of the same name in another folder.
        stem = re.sub(r"\W", "_", file.stem)
        name = f"{__name__}.{stem}_{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}"
        if name in sys.modules:
            continue
        require(file.is_file() and file.suffix == ".py", f"a plug-in must be a Python file NAME.py, got {file}")
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            reason = str(error) if isinstance(error, InvalidInput) else f"{type(error).__name__}: {error}"
            failed.append((f"plug-in {file} could not be loaded: {reason}", error))
    if failed:
        raise InvalidInput("; ".join(sentence for sentence, _ in failed)) from failed[0][1]


load_plugins()
