"""The command `rankmixup`: runs the requested command and turns errors into one sentence and an exit status.

Nothing here imports torch; each sub-command imports what it needs when it runs.
"""

import importlib
import io
import math
import os
import sys
from collections.abc import Sequence

from rankmixup import __version__
from rankmixup.cli.output import print_error, print_warnings, readers_may_leave, status_of
from rankmixup.cli.parsing import parse, take_flag
from rankmixup.errors import require, unknown_name

COMMANDS = {
    "demo": "train five methods on built-in data and compare their calibration",
    "train": "train a network with a method: rankmixup train METHOD [options]",
    "runs": "list runs with their state and validation metrics",
    "evaluate": "compute metrics of a run or of a file of scores, with confidence intervals and noise floors",
    "predict": "predict images with the calibrated network of a run",
    "export": "write a run's calibrated network as a folder for other programs: safetensors, ONNX, torch.export",
    "compare": "test whether runs or files of scores differ significantly on one test set",
    "ood": "measure how well out-of-distribution samples are detected",
    "shift": "measure calibration on corrupted test images: CIFAR-10-C and its kind, from files or generated",
    "report": "write one HTML page about runs or files of scores",
    "reproduce": "reproduce the paper's tables and figures and compare them with the published numbers",
    "sweep": "train every combination of some settings and rank them on validation data: rankmixup sweep METHOD ... [options]",
    "list": "list methods, mixers, models, data, corruptions, metrics, calibrators or experiments",
    "doctor": "show versions, devices, data and runs of this installation, for a bug report",
}
"""Each command with its summary; a command is a module NAME_command of this package with a function `run`.

`run(options: Dataclass)` gets the options parsed into that dataclass, `run(argv)` the arguments; it returns the exit status or None for 0.
"""
_LINES = "\n".join(f"  {name:<10} {summary}" for name, summary in COMMANDS.items())
_HELP = f"""usage: rankmixup COMMAND [options]

Train classifiers whose confidence can be trusted, and prove it.

commands:
{_LINES}

rankmixup COMMAND --help shows its options; --version prints the version. Every command also takes:

  --debug        show the full traceback of an error
  --max-gib N    read files that unpack to at most N GiB (default: 1 GiB, or 20 times the size of the file if that is more)
  --plugin FILE  run a Python file that registers methods, mixers, models, data sets, metrics or calibrators; may be repeated"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 done, 1 the work failed, 2 the request was wrong, 128 + N stopped by signal N."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        # By default standard output refuses file names that are not UTF-8.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with readers_may_leave(), print_warnings():
            return _dispatch(_with_settings([argument for argument in arguments if argument != "--debug"]))
    except KeyboardInterrupt as stopped:
        print(str(stopped) or "interrupted", file=sys.stderr)
        return getattr(stopped, "exit_status", 130)
    except BrokenPipeError:
        return 1
    except Exception as error:
        status = status_of(error)
        if debug or status is None:
            raise
        print_error(error)
        return status


def _with_settings(arguments: list[str]) -> list[str]:
    """The arguments without `--max-gib N` and `--plugin FILE`, which are set for this process and those that it starts."""
    limits, rest = take_flag(arguments, "--max-gib")
    for limit in limits:
        try:
            gib = float(limit)
        except ValueError:
            gib = math.nan
        require(0 < gib < math.inf, f"--max-gib must be a positive number, got {limit!r}")
        os.environ["RANKMIXUP_MAX_GIB"] = limit
    plugins, rest = take_flag(rest, "--plugin")
    for plugin in plugins:
        require(not {",", os.pathsep} & set(plugin), f"--plugin must be a file without ',' and {os.pathsep!r} in its path, got {plugin!r}")
    plugins = [*filter(None, [os.environ.get("RANKMIXUP_PLUGINS")]), *plugins]
    if plugins:
        os.environ["RANKMIXUP_PLUGINS"] = os.pathsep.join(plugins)
        # Help stays fast: a plug-in imports torch. There it is loaded only by what looks for an unknown name.
        # And doctor reports a plug-in that cannot be loaded.
        if not {"-h", "--help"} & set(rest) and rest[:1] != ["doctor"]:
            from rankmixup.plugins import load_plugins

            load_plugins()
    return rest


def _dispatch(arguments: list[str]) -> int:
    name, *rest = arguments or ["--help"]
    if name in ("-h", "--help", "--version"):
        print(__version__ if name == "--version" else _HELP)
        return 0
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS)
    run = importlib.import_module(f"rankmixup.cli.{name}_command").run
    dataclass = run.__annotations__.get("options")
    return run(parse(dataclass, rest, prog=f"rankmixup {name}") if dataclass else rest) or 0
