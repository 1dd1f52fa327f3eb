"""`rankmixup predict` on a folder of photos, beside a plain script with torchvision's transforms and a DataLoader."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.deploy import model_of
from benchmarks.timing import interleaved, line

COUNT, WIDTH, HEIGHT, SIZE, BATCH, WORKERS = 2000, 500, 375, 96, 64, 2
PLAIN = f"""
import sys
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor

from rankmixup.models import build_model


class Photos(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).iterdir())
        self.transform = Compose([Resize({SIZE}), CenterCrop({SIZE}), ToTensor(), Normalize([0.5] * 3, [0.25] * 3)])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, place):
        return self.transform(Image.open(self.paths[place]).convert("RGB"))


photos = Photos(sys.argv[1])
model = build_model("resnet8", num_classes=10, image_size={SIZE}).eval().to(memory_format=torch.channels_last)
loader = DataLoader(photos, batch_size={BATCH}, num_workers={WORKERS})
with torch.no_grad():
    found = torch.cat([model(x.to(memory_format=torch.channels_last)).softmax(dim=1) for x in loader])
with open(sys.argv[2], "w") as file:
    for path, row in zip(photos.paths, found.tolist()):
        print(path.name, *row, sep=",", file=file)
"""


def make_photos(folder: Path) -> None:
    """Smooth images with noise, as large in bytes as photos of their size are."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(COUNT):
        smooth = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
        noisy = np.asarray(smooth) + rng.normal(0, 6, (HEIGHT, WIDTH, 1))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / f"{number:04}.jpg", quality=85)


def main() -> list[str]:
    """Seconds of both programs, start included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_photos(folder / "photos")
        model_of("resnet8", SIZE).export(folder / "model")
        (folder / "plain.py").write_text(PLAIN)
        batch = ["--batch-size", str(BATCH), "--workers", str(WORKERS)]
        predict = ["-m", "rankmixup", "predict", "model", "photos", "-o", "ours.csv"]
        commands = {
            "plain": ["plain.py", "photos", "plain.csv"],
            "rankmixup predict": predict,
            "the same with --batch-size and --workers": [*predict, *batch],
        }

        def step(arguments: list[str]) -> Callable[[], object]:
            return lambda: subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True)

        seconds = interleaved({key: step(arguments) for key, arguments in commands.items()}, 3, warm_up=1)
    plain = seconds.pop("plain")
    what = f"{COUNT} JPEGs of {WIDTH}x{HEIGHT}, ResNet-8 at {SIZE} pixels, a plain script: {plain:.1f} seconds"
    return [
        f"      {what}",
        *(line(f"seconds of {key}, {value:.1f}, over those of the script", value / plain, 1.2) for key, value in seconds.items()),
    ]


if __name__ == "__main__":
    print("\n".join(main()))
