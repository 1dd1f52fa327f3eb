"""Ways in which files go bad."""

from pathlib import Path

import numpy as np

from studies.fuzzing.values import hostile_json

__all__ = ["damage", "damage_json"]


def damage(rng: np.random.Generator, content: bytes) -> bytes:
    """`content` with flipped, lost, repeated, inserted or overwritten bytes."""
    changed = bytearray(content)
    place = int(rng.integers(len(changed) + 1))
    span = int(rng.choice([1, 4, 64, 1000]))
    kind = int(rng.integers(8))
    if kind <= 2:
        for at in rng.integers(max(1, len(changed)), size=int(rng.choice([1, 3, 20]))):
            changed[at : at + 1] = bytes([int(rng.integers(256))])
    elif kind == 3:
        del changed[place:]
    elif kind == 4:
        del changed[place : place + span]
    elif kind == 5:
        changed[place:place] = changed[max(0, place - span) : place]
    elif kind == 6:
        changed[place:place] = rng.bytes(span)
    else:
        changed[place : place + span] = bytes([int(rng.choice([0, 255]))]) * span
    return bytes(changed)


def damage_json(rng: np.random.Generator, text: str) -> bytes:
    """JSON with one value or key replaced, or broken as bytes."""
    if rng.random() < 0.25:
        return damage(rng, text.encode())
    starts = [i for i, sign in enumerate(text) if sign in ":[," and i + 1 < len(text)]
    start = 1 + int(rng.choice(starts)) if starts else 0
    ends = [end for end in (text.find(sign, start) for sign in ",]}\n") if end >= 0]
    stop = min(ends, default=len(text))
    new = hostile_json(rng) if rng.random() < 0.8 else ""
    return (text[:start] + new + text[stop:]).encode(errors="surrogatepass")


def damage_file(rng: np.random.Generator, path: Path) -> None:
    """Damage a file in place, or lose it, or put a folder in its place."""
    kind = int(rng.integers(10))
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.unlink()
        path.mkdir()
    elif path.suffix in (".json", ".jsonl"):
        path.write_bytes(damage_json(rng, path.read_text()))
    else:
        path.write_bytes(damage(rng, path.read_bytes()))
