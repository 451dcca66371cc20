"""A task of NeuroGym: a rate network learns perceptual decisions from the trials that the library draws.

NeuroGym's `Dataset` yields sequences of trials, time first: observations (steps, sequences, n_in) and the right action
of each step (steps, sequences). That is the layout of `hfrnn.Batch`, so a batch needs no change. The loss is softmax.

    pip install . neurogym torch                    in a copy of the project; NeuroGym imports PyTorch
    python examples/neurogym_task.py                trains for a minute and a half

References
----------
M. Molano-Mazon et al., NeuroGym: an open resource for developing and sharing neuroscience tasks, 2022.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import hfrnn

TASK = "PerceptualDecisionMaking-v0"
STEPS = 100
"""Steps of a sequence, which holds several trials."""
STEP_MILLISECONDS = 50
FIXATION = 0
"""The action of all steps but those of the decision."""


def drawing(rng: Generator, sequences: int) -> hfrnn.Batch:
    """Return sequences of trials that depend on the random generator only."""
    import neurogym

    dataset = neurogym.Dataset(
        TASK, env_kwargs={"dt": STEP_MILLISECONDS}, batch_size=sequences, seq_len=STEPS, cache_len=0
    )
    dataset.seed(int(rng.integers(2**31)))  # without a cache, the next call draws new trials
    observations, actions = dataset()
    return hfrnn.Batch(observations.astype(np.float32), actions.astype(np.int32))


def correct(outputs: NDArray[np.float32], batch: hfrnn.Batch) -> float:
    """Return the share of right actions in the steps of a decision."""
    targets = np.asarray(batch.targets)
    decisions = targets != FIXATION
    return float((outputs.argmax(axis=-1) == targets)[decisions].mean())


def main(minutes: float = 1.5, out: str = "runs/neurogym", sequences: int = 300) -> float:
    """Train a rate network on new sequences, and return the share of right decisions in held-out ones."""
    held_out = drawing(np.random.default_rng(1), sequences)
    result = hfrnn.train(
        batches=lambda rng: drawing(rng, sequences), valid=held_out, arch="rate", hidden=50, leak=0.2,
        minutes=minutes, out=out,
    )  # fmt: skip
    share = correct(result.net.run(result.theta, held_out)[0], held_out)
    print(f"{result.summary['updates']} updates, loss {result.summary['best']['valid_loss']:.4g}, {share:.1%} correct")
    return share


if __name__ == "__main__":
    main()
