"""Signals that ask a run to stop: recorded, so that the step can be finished and the run saved."""

import os
import signal
import subprocess
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from lightning_fabric import Fabric

from rankmixup.errors import Interrupted
from rankmixup.training.processes import on_first_process


class Signals:
    """While entered, SIGINT and SIGTERM (under SLURM SIGUSR1 too) are recorded; a second one acts as without this."""

    def __init__(self) -> None:
        self.received = 0
        """Number of the signal, 0 if none came."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        # Only the main thread may handle signals.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGUSR1] if "SLURM_JOB_ID" in os.environ else [])):
                self._before[number] = signal.signal(number, self._record)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)


def interrupted(fabric: Fabric, number: int, path: Path, where: str) -> Interrupted:
    """The error for a run that was saved after `where` because of signal `number`; under SLURM, its job is queued again."""
    sentence = f"run {path} was stopped by {signal.Signals(number).name} and saved after {where}; "
    sentence += f"continue it with 'rankmixup train --resume {path}'"
    requeued = on_first_process(fabric, lambda: _requeue(number))
    return Interrupted(f"{sentence}; {requeued}" if requeued else sentence, 128 + number)


def _requeue(number: int) -> str | None:
    """Have SLURM start this job again, if it is one and signal `number` came from SLURM; a clause that says whether it will."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None or number == signal.SIGINT:
        return None
    try:
        subprocess.run(["scontrol", "requeue", job], check=True, capture_output=True, text=True, timeout=30)  # noqa: S603, S607
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        return f"SLURM could not requeue job {job} ({reason})"
    return f"SLURM has requeued job {job}"
