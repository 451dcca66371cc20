"""What do jax-sysid and deepSI reach on recorded systems, with the split, the scores and the time of run.py?

    pip install . jax-sysid pandas h5py                     each tool in an environment of its own
    python benchmarks/systems/other_tools.py --tool jax-sysid --system silverbox --seconds 165 --seeds 3
    pip install . deepSI pandas
    python benchmarks/systems/other_tools.py --tool deepsi --system cascaded-tanks --seconds 10 --seeds 3

Each tool gets the training recording, scaled, on one thread, for some processor seconds without compilation and without
validation. The end of the recording is for validation alone. It keeps the weights with the lowest error, and it
chooses the configuration among those in CONFIGURATIONS: each one is tried on one seed for a quarter of the seconds.

- jax-sysid: the state-space network of hfrnn, with some states and tanh units, trained on the recording in one piece by
  L-BFGS with the first state as a variable. See ../sysid_fit.py. Test recordings are read from a state of zeros, and
  from the state that its `learn_x0` finds from the samples before the published step. The last tenth validates.
- deepSI: the SUBNET of its own example of the cascaded tanks, with the example's options and validation part, trained
  by Adam. Its encoder finds the first state from the first five samples of the test recording, inputs and outputs.

The results stand in the JSON files of run.py. Runs that they hold already are not made again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import click
import common
import numpy as np
import sysid_fit
from recordings import SYSTEMS, System
from run import FOLDER, scores

import hfrnn

CONFIGURATIONS: dict[str, list[dict[str, Any]]] = {
    "jax-sysid": [
        {"states": 2, "units": 10, "rho_th": 1e-3},
        {"states": 4, "units": 10, "rho_th": 1e-4},
        {"states": 4, "units": 10, "rho_th": 0.0},
        {"states": 8, "units": 20, "rho_th": 0.0},
    ],
    "deepsi": [{"train": 850, "nx": 2, "nb": 5, "na": 5, "T": 30, "batch_size": 64}],
}
BURN_IN = 100
"""Steps of the validation part that are not scored, at most half of it."""


def parts(system: System) -> tuple[Any, Any, Any, int]:
    """Return inputs and outputs scaled, their means and deviations, and where validation begins."""
    values = np.stack(system.load()[0], axis=1)
    means, units = values.mean(axis=0), values.std(axis=0)
    return (values - means) / units, means, units, len(values) * 9 // 10


def sysid(system: System, seed: int, seconds: float, chosen: dict[str, Any], tests: Any) -> dict[str, Any]:
    """Train a state-space network with jax-sysid, and return its errors."""
    import jax

    jax.config.update("jax_enable_x64", True)
    values, means, units, cut = parts(system)
    net = hfrnn.Network(
        "state-space", 1, chosen["states"], 1, units=chosen["units"], loss="squared", dtype="float64"
    )  # fmt: skip
    model, watch = sysid_fit.model_of(net, net.init(seed=seed)), sysid_fit.Watch(seconds, points=50)
    sysid_fit.fit(model, values[:cut, 0], values[:cut, 1], watch, rho_th=chosen["rho_th"])

    def simulated(weights: Any, first: Any, u: Any) -> Any:
        model.params = weights
        return np.asarray(model.predict(np.asarray(first), u)[0])[:, 0]

    judged = slice(cut + min(BURN_IN, (len(values) - cut) // 2), None)
    best, at, weights, first = np.inf, 0.0, None, None
    for used, found in watch.found:
        count = len(sysid_fit.NAMES)
        error = float(np.mean((simulated(found[:count], found[count], values[:, 0]) - values[:, 1])[judged] ** 2))
        if error < best:
            best, at, weights, first = error, used, found[:count], found[count]

    def predict(u: Any, y: Any, estimated: bool = False) -> Any:
        u, y = ((each - mean) / unit for each, mean, unit in zip((u, y), means, units, strict=True))
        start = np.zeros(chosen["states"])
        if estimated:
            model.params = weights
            start = model.learn_x0(u[: system.washout, None], y[: system.washout, None], verbosity=False)
        return simulated(weights, start, u) * units[1] + means[1]

    return {
        "seconds_processor": round(watch.used, 1), "best_after": round(at, 1), "iterations": watch.iterations,
        "valid_nrmse": best**0.5, "first_state": np.asarray(first).round(4).tolist(),
        "test": scores(system, predict, tests),
        "test_estimated": scores(system, lambda u, y: predict(u, y, estimated=True), tests),
    }  # fmt: skip


def deepsi(system: System, seed: int, seconds: float, chosen: dict[str, Any], tests: Any) -> dict[str, Any]:
    """Train a SUBNET with deepSI, and return its errors."""
    import deepSI
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    u, y = system.load()[0]
    cut, used = chosen["train"], [0.0]
    train, valid = (deepSI.Input_output_data(u=u[part], y=y[part]) for part in (slice(cut), slice(cut, None)))
    nu, ny, norm = deepSI.get_nu_ny_and_auto_norm(deepSI.Input_output_data(u=u, y=y))
    model = deepSI.SUBNET(nu, ny, norm, nx=chosen["nx"], nb=chosen["nb"], na=chosen["na"])

    class Timed(torch.optim.Adam):
        """Adam, as deepSI chooses it; interrupts the fit when the processor seconds of its steps are over."""

        def step(self, closure: Any = None) -> Any:
            start = time.process_time()
            loss = super().step(closure)
            used[0] += time.process_time() - start
            if used[0] > seconds:
                raise KeyboardInterrupt
            return loss

    found = deepSI.fit(
        model, train, valid, n_its=sysid_fit.ENDLESS, T=chosen["T"], batch_size=chosen["batch_size"], val_freq=100,
        optimizer=Timed(model.parameters()),
    )  # fmt: skip

    def predict(u: Any, y: Any) -> Any:
        return model.simulate(deepSI.Input_output_data(u=u, y=y)).y

    return {
        "seconds_processor": round(used[0], 1), "iterations": int(found["it_counter"][-1]),
        "valid_nrmse": float(np.nanmin(found["NRMS_val"])), "test_estimated": scores(system, predict, tests),
    }  # fmt: skip


TOOLS = {"jax-sysid": sysid, "deepsi": deepsi}
PACKAGES = {"jax-sysid": "jax-sysid", "deepsi": "deepSI"}


@click.command(cls=common.Command)
@click.option("--tool", type=click.Choice(tuple(TOOLS)), required=True, help="The tool.")
@click.option("--system", "names", type=click.Choice(tuple(SYSTEMS)), multiple=True, required=True, help="Systems.")
@click.option("--seeds", default=3, type=click.IntRange(1), help="Number of seeds, from 0.")
@click.option("--seconds", default=60.0, type=click.FloatRange(0, min_open=True), help="Processor seconds of a run.")
def main(tool: str, names: tuple[str, ...], seeds: int, seconds: float) -> None:
    """Choose a configuration by validation, train and score."""
    for name in names:
        system, path = SYSTEMS[name], FOLDER / f"{name}.json"
        found = json.loads(path.read_text("utf-8"))
        own = found.setdefault("others", {}).setdefault(
            tool, {"machine": common.machine(1), "version": common.version(PACKAGES[tool]), "seconds": seconds,
                   "trials": [], "runs": []},
        )  # fmt: skip
        several = CONFIGURATIONS[tool] if len(CONFIGURATIONS[tool]) > 1 else []
        for each in several:
            if each not in [trial["configuration"] for trial in own["trials"]]:
                trial = TOOLS[tool](system, 0, seconds / 4, each, {})
                kept = {key: trial[key] for key in ("seconds_processor", "iterations", "valid_nrmse")}
                own["trials"].append({"configuration": each, **kept})
                common.write_result(path, found)
                click.echo(f"{name} {tool} {each}: valid {trial['valid_nrmse']:.4g}")
        if several:
            own["configuration"] = min(own["trials"], key=lambda trial: trial["valid_nrmse"])["configuration"]
        else:
            own["configuration"] = CONFIGURATIONS[tool][0]
        for seed in sorted({*range(seeds)} - {run["seed"] for run in own["runs"]}):
            run = TOOLS[tool](system, seed, seconds, own["configuration"], system.load()[1])
            own["runs"].append({"seed": seed, **run})
            common.write_result(path, found)
            click.echo(f"{name} {tool} seed {seed}: {run}")


if __name__ == "__main__":
    main()
