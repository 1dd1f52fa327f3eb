"""Files of scores in every format, whole or damaged."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from rankmixup.errors import InvalidInput
from rankmixup.evaluation import Scores, all_metrics
from studies.fuzzing.case import Difference, Verdict
from studies.fuzzing.damage import damage
from studies.fuzzing.oracle import agree
from studies.fuzzing.values import Sample, draw_sample, hostile

__all__ = ["try_score_file", "write_scores"]

_CHECKED = (".npz", ".pt")
"""Zip archives: damage must be noticed by their checksums."""


def try_score_file(rng: np.random.Generator, folder: Path) -> Verdict:
    """One file that is read."""
    sample = draw_sample(rng)
    how = rng.choice(["whole", "damaged", "hostile", "rewritten"], p=[0.35, 0.35, 0.2, 0.1])
    path = folder / f"scores{rng.choice(['.npz', '.pt', '.safetensors', '.csv'])}"
    if how == "hostile":
        path = folder / "scores.npz"
        _write_hostile(rng, path, sample)
    else:
        write_scores(rng, path, sample)
    content = path.read_bytes()
    if how == "damaged":
        path.write_bytes(damage(rng, content))
    elif how == "rewritten" and path.suffix in _CHECKED:
        path.write_bytes(_rewritten(rng, content))
    try:
        read = Scores.read(path, _kind(path, sample))
    except InvalidInput as error:
        if how == "whole":
            raise Difference(f"a whole file must be read, got: {error}") from error
        raise
    if how == "damaged" and path.suffix in _CHECKED and path.read_bytes() != content:
        same = np.array_equal(read.scores.numpy(), sample.exact) and np.array_equal(read.labels.numpy(), sample.labels.astype(np.int64))
        if not same:
            raise Difference("a damaged archive must be refused or read as it was, other numbers were read")
    seen = Sample(read.scores.double().numpy(), read.labels.numpy(), read.from_logits)
    expected = sample if how == "whole" else seen
    agree(all_metrics(read.scores, read.labels, from_logits=read.from_logits), expected)
    return "agrees"


def _kind(path: Path, sample: Sample) -> str | None:
    """What has to be said of a file that does not say it itself."""
    plain = path.suffix == ".csv" and not path.read_bytes()[:400].lower().count(b"logit") and not path.read_bytes()[:400].count(b"prob")
    return ("logits" if sample.from_logits else "probs") if plain else None


def write_scores(rng: np.random.Generator, path: Path, sample: Sample) -> None:
    """Write a right file in one of the ways in which people do."""
    kind = "logits" if sample.from_logits else "probs"
    labels = sample.labels
    if path.suffix == ".npz":
        save = np.savez_compressed if rng.random() < 0.5 else np.savez
        more = {"index": np.arange(len(labels))} if rng.random() < 0.3 else {}
        save(path, **{kind: sample.scores, "labels": labels, **more})
    elif path.suffix == ".csv":
        _write_csv(rng, path, sample, kind)
    else:
        tensors = {kind: torch.from_numpy(sample.scores), "labels": torch.from_numpy(labels.astype(np.int64))}
        if path.suffix == ".pt":
            torch.save(tensors, path)
        else:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


def _write_csv(rng: np.random.Generator, path: Path, sample: Sample, kind: str) -> None:
    classes = sample.scores.shape[1]
    prefix = f"{kind[:-1] if kind == 'logits' else 'prob'}_"
    names = [f"{prefix}{number}" for number in range(classes)]
    labels = [str(label) for label in sample.labels]
    named = rng.random() < 0.3
    if named:  # classes with names, labels that are these names
        words = [f"class {chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(classes)]
        names, labels = [prefix + word for word in words], [words[label] for label in sample.labels]
    columns = [*names, str(rng.choice(["label", "labels", "target"]))]
    rows = [[repr(float(value)) for value in row] + [label] for row, label in zip(sample.scores, labels, strict=True)]
    if rng.random() < 0.3:
        columns, rows = ["id", *columns], [[str(number), *row] for number, row in enumerate(rows)]
    if rng.random() < 0.5 and not named:  # the order of named classes says which of two equal scores is the prediction
        columns, rows = columns[::-1], [row[::-1] for row in rows]
    sign = str(rng.choice([",", ";", "\t"]))
    path.write_text("\n".join(sign.join(row) for row in [columns, *rows]) + "\n")


def _write_hostile(rng: np.random.Generator, path: Path, sample: Sample) -> None:
    """An archive that is whole, of arrays that are not what they should be."""
    arrays = {"logits" if sample.from_logits else "probs": sample.scores, "labels": sample.labels}
    name = str(rng.choice(list(arrays)))
    value = hostile(rng, arrays[name])
    arrays[name] = value.detach().numpy() if isinstance(value, torch.Tensor) and _dense(value) else value
    try:
        np.savez(path, **{key: np.asanyarray(value) for key, value in arrays.items()})
    except (ValueError, TypeError, RuntimeError):  # cannot be put into a file at all
        np.savez(path, labels=sample.labels)


def _dense(value: torch.Tensor) -> bool:
    return (
        value.layout == torch.strided and value.device.type == "cpu" and value.dtype in (torch.float64, torch.int64) and not value.is_nested
    )


def _rewritten(rng: np.random.Generator, content: bytes) -> bytes:
    """The same archive with a member whose bytes are others, its checksum being right: what a broken or malicious writer makes."""
    source, target = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    names = source.namelist()
    chosen = str(rng.choice(names))
    with zipfile.ZipFile(target, "w", int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))) as archive:
        for name in names:
            member = source.read(name)
            if name == chosen:
                member = _promising_more(rng, member) if rng.random() < 0.3 else damage(rng, member)
            archive.writestr(name, member)
    return target.getvalue()


def _promising_more(rng: np.random.Generator, member: bytes) -> bytes:
    """An npy header that speaks of a huge array; other members get a long run of zeros."""
    if member.startswith(b"\x93NUMPY"):
        shape = json.dumps([int(rng.choice([10**9, 2**40, 2**62])), 10]).replace("[", "(").replace("]", ")")
        head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
        return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + member[128:]
    return member + bytes(int(rng.choice([10, 10**6])))
