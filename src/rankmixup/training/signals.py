"""Signals that ask a run to stop: recorded, so that the step can be finished and the run saved."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from types import FrameType

from lightning_fabric import Fabric

from rankmixup.errors import Interrupted
from rankmixup.runs import StoredRun
from rankmixup.training.processes import on_first_process


class Signals:
    """The signal that asks a run to stop."""

    received = 0
    """Its number, 0 if none came."""

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Record SIGINT and SIGTERM (under SLURM SIGUSR1 too) instead of ending the process; a second one acts as without this."""

        def record(number: int, frame: FrameType | None) -> None:
            self.received = number
            for each in before:
                signal.signal(each, signal.SIG_DFL)

        numbers = (signal.SIGINT, signal.SIGTERM, *([signal.SIGUSR1] if "SLURM_JOB_ID" in os.environ else []))
        # Only the main thread may handle signals.
        in_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in numbers if in_main}
        try:
            for number in before:
                signal.signal(number, record)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def interrupted(fabric: Fabric, number: int, store: StoredRun, where: str) -> Interrupted:
    """The error for a run that was saved after `where` because of signal `number`; under SLURM, its job is queued again."""
    sentence = f"run {store.path} was stopped by {signal.Signals(number).name} and saved after {where}; "
    sentence += f"continue it with {store.continued_by}"
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
