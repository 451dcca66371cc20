"""Train one state-space network on the recording of dynamics.py with jax-sysid and with hfrnn, and compare the losses.

    pip install . jax-sysid rich                         in a copy of the project; jax-sysid needs Python below 3.13
    python benchmarks/jax_sysid_recording.py             results/jax-sysid.json

jax-sysid (A. Bemporad) minimises the squared error of a whole recording by L-BFGS, with gradients from JAX. Both tools
get the same recording, the same network of jax-sysid's kind (6 states, 10 tanh units) and the same first weights; hfrnn
gets the recording in windows, with its defaults. `--seconds 0` leaves a tool out. The processor seconds leave out
compilation: those of a fit with one evaluation are subtracted, and hfrnn's kernels are compiled before.
"""

from __future__ import annotations

import json
import tempfile
import time
from typing import Any

import click
import common
import numpy as np
from dynamics import SAMPLES, VALID_SAMPLES, data_of, wiener_hammerstein, windows
from rich.console import Console
from rich.table import Table

import hfrnn

NAMES = ("layer0.W_x", "layer0.b", "layer0.A", "layer0.W_1", "layer0.W_3", "output.W_y0", "output.b_y")
"""The blocks of the network, in the order of the model's parameters."""
NETWORK: dict[str, Any] = {"arch": "state-space", "hidden": 6, "units": 10}


def model_of(net: hfrnn.Network, theta: Any) -> Any:
    """Return jax-sysid's model of a state-space network, with its weights."""
    import jax.numpy as jnp
    from jax_sysid.models import Model

    n = NETWORK["hidden"]

    def state(x: Any, u: Any, params: Any) -> Any:
        W_x, b, A, W_1, W_3 = params[:5]
        U = u @ W_x + b
        return U[:n] + x @ A + jnp.tanh(U[n:] + x @ W_1) @ W_3

    def output(x: Any, u: Any, params: Any) -> Any:
        return state(x, u, params) @ params[5] + params[6]

    model = Model(n, net.n_out, net.n_in, state_fcn=state, output_fcn=output)
    model.init(params=[net.views(theta)[name] for name in NAMES])
    return model


def weights_of(net: hfrnn.Network, model: Any) -> Any:
    """Return the weights of a model as a vector of the network."""
    theta = np.zeros(net.n_parameters)
    for name, value in zip(NAMES, model.params, strict=True):
        net.views(theta)[name][...] = np.asarray(value)
    return theta


def fit(model: Any, u: Any, y: Any, evaluations: int) -> float:
    """Go on with L-BFGS for some evaluations, and return the processor seconds."""
    model.loss(rho_x0=0.0, rho_th=0.0, train_x0=False)
    model.optimization(adam_epochs=0, lbfgs_epochs=evaluations, iprint=-1, memory=20)
    start = time.process_time()
    model.fit(y, u)
    return time.process_time() - start


def sysid_run(seed: int, seconds: float, evaluations: int, batch: Any) -> dict[str, Any]:
    """Train with jax-sysid, and return the validation loss over its processor seconds."""
    u, y = wiener_hammerstein.recording(SAMPLES, np.random.default_rng(0))
    net = hfrnn.Network(**NETWORK, n_in=1, n_out=1, loss="squared", dtype="float64")
    theta = net.init(seed=seed)
    compiling = fit(model_of(net, theta), u, y, 1)
    model, used, curve = model_of(net, theta), 0.0, list[dict[str, float]]()
    while used < seconds:
        used += max(fit(model, u, y, evaluations) - compiling, 0.0)
        loss = net.loss(weights_of(net, model), batch)
        curve.append({"seconds_processor": round(used, 2), "valid_loss": loss})
        click.echo(f"seed {seed}: {used:.0f} s, loss {loss:.4g}")
    return {"seed": seed, "compilation": compiling, "best": min(p["valid_loss"] for p in curve), "curve": curve}


class Curve(hfrnn.Callback):
    """The validation loss over the processor seconds of a run, which it ends."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.points = seconds, list[dict[str, float]]()

    def on_update(self, record: dict[str, Any]) -> bool:
        used = record["seconds_processor"]
        if record["valid_loss"] is not None:
            self.points.append({"seconds_processor": used, "valid_loss": record["valid_loss"]})
        return bool(used > self.seconds)


def own_run(seed: int, seconds: float) -> dict[str, Any]:
    """Train with hfrnn, and return the same."""
    curve = Curve(seconds)
    with tempfile.TemporaryDirectory() as folder:
        common_options = {"threads": 1, "minutes": 1e4, "out": f"{folder}/run", "seed": seed}
        hfrnn.train(**data_of("wiener-hammerstein"), **NETWORK, updates=1, **common_options)  # compiles
        common_options["out"] = f"{folder}/again"
        hfrnn.train(**data_of("wiener-hammerstein"), **NETWORK, callbacks=[curve], **common_options)
    return {"seed": seed, "best": min(p["valid_loss"] for p in curve.points), "curve": curve.points}


@click.command(cls=common.Command)
@click.option("--seconds", default=150.0, type=click.FloatRange(0), help="Processor seconds of L-BFGS.")
@click.option("--own-seconds", default=75.0, type=click.FloatRange(0), help="Processor seconds of hfrnn.")
@click.option("--evaluations", default=400, type=click.IntRange(1), help="Evaluations between two validations.")
@click.option("--seed", "seeds", type=click.IntRange(0), multiple=True, default=(0,), help="Seeds of the weights.")
def main(seconds: float, own_seconds: float, evaluations: int, seeds: tuple[int, ...]) -> None:
    """Train, and print the validation loss over the processor seconds."""
    path = common.RESULTS / "jax-sysid.json"
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if own_seconds:
        runs = [own_run(seed, own_seconds) for seed in seeds]
        found["hfrnn"] = {"machine": common.machine(1), "network": NETWORK, "runs": runs}
    if seconds:
        import jax

        jax.config.update("jax_enable_x64", True)
        valid = windows(VALID_SAMPLES, np.random.default_rng(1))
        batch = hfrnn.Batch(*(valid[name].astype(np.float64).swapaxes(0, 1) for name in ("x", "y", "mask")))
        runs = [sysid_run(seed, seconds, evaluations, batch) for seed in seeds]
        found["jax-sysid"] = {
            "machine": common.machine(1), "version": common.version("jax-sysid"), "network": NETWORK, "runs": runs,
        }  # fmt: skip
    common.write_result(path, found)
    table = Table("tool", "seed", "lowest loss", "processor seconds")
    for tool, own in found.items():
        for run in own["runs"]:
            table.add_row(tool, str(run["seed"]), f"{run['best']:.3g}", f"{run['curve'][-1]['seconds_processor']:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
