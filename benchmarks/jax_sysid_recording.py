"""Train one state-space network on the recording of dynamics.py with jax-sysid and with hfrnn, and compare the losses.

    pip install . jax-sysid rich                         in a copy of the project; jax-sysid needs Python below 3.13
    python benchmarks/jax_sysid_recording.py             results/jax-sysid.json

Both tools get the same recording, the same network of jax-sysid's kind (6 states, 10 tanh units) and the same first
weights, on one thread. sysid_fit.py says how jax-sysid is used. hfrnn has its defaults; it cuts the recording in
windows. The loss is half of the mean squared error on a second recording; the steps before the burn-in are left out,
of each window (hfrnn) or of the recording (jax-sysid). The runs of the two tools take turns. All times are processor
seconds without compilation; those of hfrnn include its validations. Runs that the JSON holds are not made again.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import tempfile
from typing import Any

import click
import common
import numpy as np
import sysid_fit
from comparison import thin
from dynamics import LOSS, SAMPLES, VALID_SAMPLES, wiener_hammerstein
from rich.console import Console
from rich.table import Table

import hfrnn

NETWORK: dict[str, Any] = {"arch": "state-space", "hidden": 6, "units": 10}
POINTS = 150


def recording(samples: int, seed: int) -> Any:
    """Return a recording as a table."""
    import pandas

    u, y = wiener_hammerstein.recording(samples, np.random.default_rng(seed))
    return pandas.DataFrame({"u": u, "y": y})


def sysid_run(seed: int, seconds: float, burn_in: int) -> dict[str, Any]:
    """Train with jax-sysid, and return the validation loss over its processor seconds."""
    train, valid = recording(SAMPLES, 0), recording(VALID_SAMPLES, 1)
    net = hfrnn.Network(**NETWORK, n_in=1, n_out=1, loss="squared", dtype="float64")
    watch = sysid_fit.Watch(seconds)
    model = sysid_fit.model_of(net, net.init(seed=seed))
    sysid_fit.fit(model, train["u"].to_numpy(), train["y"].to_numpy(), watch, rho_x0=0.0, rho_th=0.0, train_x0=False)
    mask = np.arange(VALID_SAMPLES)[:, None] >= burn_in
    batch = hfrnn.Batch(*(valid[name].to_numpy()[:, None, None] for name in "uy"), mask.astype(float))
    points = [
        {"seconds_processor": round(used, 2), LOSS: net.loss(sysid_fit.weights_of(net, weights), batch)}
        for used, weights in watch.found
    ]
    return result(seed, points) | {"iterations": watch.iterations}


class Curve(hfrnn.Callback):
    """The validation loss over the processor seconds of a run, which it ends."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.points = seconds, list[dict[str, float]]()

    def on_update(self, record: dict[str, Any]) -> bool:
        used = record["seconds_processor"]
        if record[LOSS] is not None:
            self.points.append({"seconds_processor": used, LOSS: record[LOSS]})
        return bool(used > self.seconds)


def own_run(seed: int, seconds: float) -> dict[str, Any]:
    """Train with hfrnn, and return the same."""
    curve = Curve(seconds)
    data = {"data": recording(SAMPLES, 0), "valid": recording(VALID_SAMPLES, 1), "inputs": ["u"], "targets": ["y"]}
    with tempfile.TemporaryDirectory() as folder:
        hfrnn.train(**data, **NETWORK, threads=1, seed=seed, updates=1, out=f"{folder}/compiles")
        found = hfrnn.train(
            **data, **NETWORK, threads=1, seed=seed, minutes=1e4, out=f"{folder}/run", callbacks=[curve]
        )  # fmt: skip
    cut = {"window": found.config.window, "burn_in": found.config.burn_in}
    return result(seed, curve.points) | cut | {"updates": found.summary["updates"]}


def result(seed: int, points: list[dict[str, float]]) -> dict[str, Any]:
    """Return the result of a run: its lowest loss, and its curve."""
    return {"seed": seed, "best": min(p[LOSS] for p in points), "curve": thin(points, POINTS, LOSS)}


@click.command(cls=common.Command)
@click.option("--seconds", default=150.0, type=click.FloatRange(0, min_open=True), help="Seconds of jax-sysid.")
@click.option("--own-seconds", default=75.0, type=click.FloatRange(0, min_open=True), help="Seconds of hfrnn.")
@click.option("--seeds", default=3, type=click.IntRange(1), help="Number of seeds, from 0.")
def main(seconds: float, own_seconds: float, seeds: int) -> None:
    """Train, and print the validation loss over the processor seconds."""
    import jax

    jax.config.update("jax_enable_x64", True)
    path = common.RESULTS / "jax-sysid.json"
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    about = {"machine": common.machine(1), "version": common.version("jax-sysid"), "network": NETWORK}
    for seed in range(seeds):
        for tool in ("hfrnn", "jax-sysid"):
            own = found.setdefault(tool, {**about, "runs": []})["runs"]
            if seed not in {each["seed"] for each in own}:
                burn_in = found["hfrnn"]["runs"][0]["burn_in"] if tool == "jax-sysid" else 0
                own.append(own_run(seed, own_seconds) if tool == "hfrnn" else sysid_run(seed, seconds, burn_in))
                common.write_result(path, found)
    table = Table("tool", "seed", "lowest loss", "processor seconds")
    for tool, own in found.items():
        for run in own["runs"]:
            table.add_row(tool, str(run["seed"]), f"{run['best']:.3g}", f"{run['curve'][-1]['seconds_processor']:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
