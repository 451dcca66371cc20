"""Train the network of dynamics.py's recording with jax-sysid's quasi-Newton method, and compare the losses.

    pip install . jax-sysid rich                         in a copy of the project; jax-sysid needs Python below 3.13
    python benchmarks/jax_sysid_recording.py             results/jax-sysid.json

jax-sysid (A. Bemporad) minimises the squared error of a whole recording by L-BFGS, with gradients from JAX. It gets the
same recording, network and first weights as hfrnn in `dynamics.py --task wiener-hammerstein`. The processor seconds
leave out compilation: those of a fit with one evaluation are subtracted.
"""

from __future__ import annotations

import json
import time
from typing import Any

import click
import common
import numpy as np
from dynamics import SAMPLES, TASKS, VALID_SAMPLES, wiener_hammerstein, windows
from rich.console import Console
from rich.table import Table

import hfrnn

NAMES = ("layer0.W_x", "layer0.W_h", "layer0.b", "output.W_y0")
"""The blocks of the network, in the order of the model's parameters."""


def model_of(net: hfrnn.Network, theta: Any) -> Any:
    """Return jax-sysid's model of a network of one layer, with its weights: y = W_y tanh(W_h x + W_x u + b)."""
    import jax.numpy as jnp
    from jax_sysid.models import Model

    def state(x: Any, u: Any, params: Any) -> Any:
        W_x, W_h, b, _ = params
        return jnp.tanh(u @ W_x + x @ W_h + b)

    def output(x: Any, u: Any, params: Any) -> Any:
        return state(x, u, params) @ params[3]

    model = Model(net.views(theta)["layer0.b"].size, net.n_out, net.n_in, state_fcn=state, output_fcn=output)
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


@click.command(cls=common.Command)
@click.option("--seconds", default=150.0, type=click.FloatRange(0, min_open=True), help="Processor seconds of L-BFGS.")
@click.option("--evaluations", default=50, type=click.IntRange(1), help="Evaluations between two validations.")
@click.option("--seed", "seeds", type=click.IntRange(0), multiple=True, default=(0,), help="Seeds of the weights.")
def main(seconds: float, evaluations: int, seeds: tuple[int, ...]) -> None:
    """Train, and print the validation loss over the processor seconds."""
    import jax

    jax.config.update("jax_enable_x64", True)
    u, y = wiener_hammerstein.recording(SAMPLES, np.random.default_rng(0))
    valid = windows(VALID_SAMPLES, np.random.default_rng(1))
    batch = hfrnn.Batch(*(valid[name].astype(np.float64).swapaxes(0, 1) for name in ("x", "y", "mask")))
    path, runs = common.RESULTS / "jax-sysid.json", []
    for seed in seeds:
        net = hfrnn.Network(**TASKS["wiener-hammerstein"], n_in=1, n_out=1, loss="squared", dtype="float64")
        theta = net.init(seed=seed)
        compiling = fit(model_of(net, theta), u, y, 1)
        model, used, curve = model_of(net, theta), 0.0, []
        while used < seconds:
            used += max(fit(model, u, y, evaluations) - compiling, 0.0)
            loss = net.loss(weights_of(net, model), batch)
            curve.append({"seconds_processor": round(used, 2), "valid_loss": loss})
            click.echo(f"seed {seed}: {used:.0f} s, loss {loss:.4g}")
        runs.append(
            {"seed": seed, "compilation": compiling, "best": min(p["valid_loss"] for p in curve), "curve": curve}
        )
    version = common.version("jax-sysid")
    common.write_result(path, {"machine": common.machine(1), "jax-sysid": version, "runs": runs})
    table = Table("seed", "lowest loss", "processor seconds")
    for run in json.loads(path.read_text("utf-8"))["runs"]:
        table.add_row(str(run["seed"]), f"{run['best']:.3g}", f"{run['curve'][-1]['seconds_processor']:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
