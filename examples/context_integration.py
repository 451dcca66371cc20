"""Context-dependent integration, as in task-trained networks of prefrontal cortex: data made with NumPy, with a mask.

Two streams of noisy evidence run side by side, and two context inputs tell which of them counts (Mante et al. 2013). At
the end the output has to be the sign of the evidence in that stream; before, it has to be 0. Some steps in between are
not scored, so that the network may decide there: the mask is 0.

    inputs    evidence 1, evidence 2, context 1, context 2
    target    0 up to step 70, then +1 or -1
    mask      0 from step 70 to step 79, else 1

    pip install .                                   in a copy of the project
    python examples/context_integration.py          trains a rate network for a minute and a half

New trials are drawn for every epoch, so the network cannot learn trials by heart. The result is a run folder:
`hfrnn report` draws its learning curve, and `hfrnn evaluate` scores it.

References
----------
V. Mante, D. Sussillo, K. Shenoy, W. Newsome, Context-dependent computation by recurrent dynamics in prefrontal cortex,
Nature 503, 2013.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import hfrnn

STEPS = 100
STIMULUS = slice(20, 70)
"""Steps with evidence."""
GRACE = slice(70, 80)
"""Steps that are not scored."""
STRENGTHS = (0.1, 0.2, 0.4)
"""Mean evidence of a step; its sign is drawn."""
NOISE = 0.25
"""Standard deviation of the evidence of a step."""


def trials(count: int, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Draw trials.

    Parameters
    ----------
    count : int
        Number of trials.
    rng : numpy.random.Generator

    Returns
    -------
    dict
        `x` (trials, steps, 4), `y` (trials, steps, 1) and `mask` (trials, steps).
    """
    x = np.zeros((count, STEPS, 4), dtype=np.float32)
    evidence = rng.choice(STRENGTHS, (count, 2)) * rng.choice((-1, 1), (count, 2))  # (trials, streams)
    noise = NOISE * rng.standard_normal((count, STIMULUS.stop - STIMULUS.start, 2))
    x[:, STIMULUS, :2] = evidence[:, None, :] + noise
    context, trial = rng.integers(0, 2, count), np.arange(count)
    x[trial, :, 2 + context] = 1
    y = np.zeros((count, STEPS, 1), dtype=np.float32)
    y[:, GRACE.start :, 0] = np.sign(evidence[trial, context])[:, None]
    mask = np.ones((count, STEPS), dtype=np.float32)
    mask[:, GRACE] = 0
    return {"x": x, "y": y, "mask": mask}


def correct(net: hfrnn.Network, theta: NDArray[np.float32], held_out: dict[str, NDArray[np.float32]]) -> float:
    """Return the share of trials whose last output has the sign of the target."""
    outputs, _ = net.run(theta, hfrnn.Batch(held_out["x"].swapaxes(0, 1)))  # (steps, trials, 1)
    return float((np.sign(outputs[-1, :, 0]) == held_out["y"][:, -1, 0]).mean())


def main(minutes: float = 1.5, out: str = "runs/context") -> float:
    """Train a rate network on new trials, and return the share of held-out trials that it decides correctly."""
    held_out = trials(500, np.random.default_rng(1))
    result = hfrnn.train(
        batches=lambda rng: trials(1000, rng),
        valid=held_out,
        arch="rate",
        hidden=50,
        leak=0.2,
        minutes=minutes,
        out=out,
    )
    share = correct(result.net, result.theta, held_out)
    print(f"{result.summary['updates']} updates, loss {result.summary['best']['valid_loss']:.4g}, {share:.1%} correct")
    return share


if __name__ == "__main__":
    main()
