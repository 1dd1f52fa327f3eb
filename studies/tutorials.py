"""What the blocks of a tutorial print, written into the tutorial.

python -m studies.tutorials              # every page, about four minutes on two cores
python -m studies.tutorials PAGE ...     # such as docs/tutorials/own-loop.md

The blocks of a page run in order, in an empty folder: Python blocks share their names, a Python block that begins with `# NAME.py` is
written to that file, and bash blocks stop at the first command that fails. A block `output` behind each holds what it printed to standard
output. A picture `images/NAME` of the page is copied from the file NAME that the page made. Blocks in other languages are left alone.
"""

import argparse
import contextlib
import difflib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.pages import BLOCK, DOCS, execute_block

PAGES = (DOCS / "start" / "get-started.md", *sorted((DOCS / "tutorials").glob("*.md")))
WIDTH, LONGEST = 100, 110
"""Columns that programs are told to fit, and above which a line is broken here."""
HEAD, TAIL = 28, 8
"""Lines that are kept of an output that has more."""
OUTPUT = re.compile(r"^\n```output\n.*?^```\n", flags=re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"!\[[^]]*\]\((\S*images/(\S+))\)")
CHANGES = {
    r"\x1b\[[0-9;?]*[A-Za-z]": "",  # colours
    r"[^\n]*\r(?!\n)": "",  # a progress bar: what is written over it is kept
    r"[ \t]+$": "",
}
VARIES = {
    r"miscalibrated in \d+ of \d+ seeds|not distinguishable from calibrated|miscalibrated": "#",  # verdicts follow from numbers
    r"no difference shown|groups differ|\b(better|worse)$|rests on a bin of \d+ samples?": "#",
    r"^([^\s,]+\.(?:png|jpg)),.*$": r"\1",  # a predicted label, too
    r"^\['.*'\] \[\[.*$": "#",  # the same of a consumer
    r"\b[0-9a-f]{12}\b": "#",  # ids of runs
    r"[-+<]?\d+(\.\d+)?(e[-+]?\d+)?": "#",
    r"─+": "─",  # rules and columns are as wide as their numbers
    r" +(?=\])": "",  # numpy fills numbers up to one width
    r"[ \t]+": " ",
}
"""What may be different on another machine."""


def substituted(text: str, changes: dict[str, str]) -> str:
    """The text after every replacement, in order."""
    for pattern, replacement in changes.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def cleaned(text: str, folder: Path) -> str:
    """A printed text as the page shows it: no colours, no path of the temporary folder, no line too wide, not too many lines."""
    for path in (folder, folder.resolve()):
        text = text.replace(f"{path}{os.sep}", "").replace(str(path), ".")
    lines = substituted(text, CHANGES).strip("\n").splitlines()
    lines = [part for line in lines for part in (textwrap.wrap(line, WIDTH) if len(line) > LONGEST else [line])]
    if len(lines) > HEAD + TAIL + 1:
        lines[HEAD:-TAIL] = [f"... {len(lines) - HEAD - TAIL} lines more ..."]
    return "\n".join(lines)


def run_bash(commands: str) -> str:
    """What the commands print to standard output; the first that fails ends them, with what it said."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode} of\n{commands}\n{done.stdout}{done.stderr}")
    return done.stdout


def executed(text: str, folder: Path) -> str:
    """The page with what its blocks print now. It changes the folder and the environment of this process: use `in_own_process`."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    for name in [name for name in os.environ if name.startswith("RANKMIXUP_")]:
        del os.environ[name]
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ |= {"PATH": programs, "COLUMNS": str(WIDTH), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}  # one thread rounds in one way
    names: dict[str, object] = {"__name__": "__main__"}
    text = OUTPUT.sub("", text)
    page, end = [], 0
    for block in BLOCK.finditer(text):
        language, code = block.groups()
        page.append(text[end : block.end()])
        end = block.end()
        if language in ("python", "bash"):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                if language == "python":
                    execute_block(code, names, folder, "page")
                else:
                    print(run_bash(code), end="")
            if shown := cleaned(printed.getvalue(), folder):
                page.append(f"\n```output\n{shown}\n```\n")
    return "".join((*page, text[end:]))


def in_own_process(page: Path, folder: Path) -> str:
    """`executed` in a process of its own, so that neither names nor registries of one page reach another."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(executed, page.read_text(encoding="utf-8"), folder).result()


def pictures(page: Path, folder: Path) -> dict[Path, Path]:
    """Each picture of a page, and the file that its blocks made for it."""
    found = {page.parent / link: list(folder.rglob(name)) for link, name in PICTURE.findall(page.read_text(encoding="utf-8"))}
    for target, sources in found.items():
        if len(sources) != 1:
            raise FileNotFoundError(f"{page.name} must make one file named {target.name}, and makes {len(sources)}")
    return {target: sources[0] for target, sources in found.items()}


def differences(kept: str, now: str) -> str:
    """Lines of two versions of a page that differ in more than what varies from machine to machine; empty if none does."""
    lines = [substituted(text, VARIES).splitlines() for text in (kept, now)]
    return "\n".join(difflib.unified_diff(*lines, "kept in the page", "printed now", lineterm="", n=1))


def main() -> None:
    """Refreshes the pages that are named, or all."""
    parser = argparse.ArgumentParser(description="Run tutorials and write what they print into them.")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, metavar="PAGE")
    for page in parser.parse_args().pages:
        with tempfile.TemporaryDirectory() as folder:
            text = in_own_process(page, Path(folder))
            for target, source in pictures(page, Path(folder)).items():
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(source, target)
        page.write_text(text, encoding="utf-8")
        print(f"written: {page}")


if __name__ == "__main__":
    main()
