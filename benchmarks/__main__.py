import platform

import torch

from benchmarks import training_step

print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
print(f"Training step, ResNet-8, N = {training_step.N}, K = {training_step.K}, {training_step.SIZE}x{training_step.SIZE} pixels:")
print("\n".join(training_step.main()))
