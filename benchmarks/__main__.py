import platform

import torch

from benchmarks import (
    command,
    corruptions,
    data,
    deploy,
    folders,
    loop,
    memory,
    methods,
    metrics,
    posthoc,
    predicting,
    switches,
    training_step,
    transformers_step,
    uncertainty,
)
from rankmixup.training import keep_freed_memory

kept = "freed memory kept, as in rankmixup train" if keep_freed_memory() else "freed memory returned"
print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}, {kept}")
print(f"\nTraining step, ResNet-8, N = {training_step.N}, K = {training_step.K}, {training_step.SIZE}x{training_step.SIZE} pixels:")
print("\n".join(training_step.main()))
print("\nEvery method:")
print("\n".join(methods.main()))
print(f"\nSwitches, N = {switches.N}:")
print("\n".join(switches.main()))
print(f"\nTraining loop, ResNet-8 on CIFAR-10, epochs of {loop.STEPS} batches of {loop.BATCH}:")
print("\n".join(loop.main()))
print(f"\nHugging Face's Trainer, BERT with four layers, batches of {transformers_step.BATCH} x {transformers_step.LENGTH} tokens:")
print("\n".join(transformers_step.main()))
print("\nMetrics:")
print("\n".join(metrics.main()))
print("\nUncertainty of metrics:")
print("\n".join(uncertainty.main()))
print("\nThe command:")
print("\n".join(command.main()))
print("\nMemory of an evaluation:")
print("\n".join(memory.main()))
print("\nTemperature scaling, 50,000 x 1000:")
print("\n".join(posthoc.main()))
print(f"\nCIFAR-10 in memory, crop, flip and normalisation, batches of {data.BATCH}:")
print("\n".join(data.main()))
print("\nCorruptions of images of 32 pixels:")
print("\n".join(corruptions.main()))
print("\nFolders of images, known by their content:")
print("\n".join(folders.main()))
print("\nDeployment:")
print("\n".join(deploy.main()))
print("\nrankmixup predict on a folder of photos:")
print("\n".join(predicting.main()))
