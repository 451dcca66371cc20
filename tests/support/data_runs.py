"""Small runs on tables and arrays, and their data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import hfrnn

ROWS = 260
TRAINED: dict[str, Any] = {
    "arch": "leaky", "hidden": 4, "optimizer": "adam", "updates": 3, "threads": 1, "dtype": "float64",
    "backend": "numpy",
}  # fmt: skip


def write_table(path: Path, columns: dict[str, Any]) -> Path:
    """Write a table; NaN becomes an empty cell."""
    rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
    lines = [",".join("" if cell != cell else repr(cell) for cell in row) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


def driven(rng: np.random.Generator) -> dict[str, Any]:
    """A recording of a system with an input u and the outputs temp and speed; some of temp is missing."""
    u = np.repeat(rng.uniform(-1, 1, ROWS // 20), 20)
    speed = np.convolve(u, 0.8 ** np.arange(30))[:ROWS]
    temp = 100 + 20 * np.tanh(speed)
    return {"u": u, "temp": np.where(rng.random(ROWS) < 0.1, np.nan, temp), "speed": speed}


def oscillator() -> dict[str, Any]:
    """A recording of two columns, each the other one's derivative."""
    t = 0.2 * np.arange(ROWS)
    return {"pos": 50 + 10 * np.sin(t), "vel": np.cos(t)}


def make_data_runs(folder: Path) -> dict[str, Path]:
    """Runs by name; the data of each are in the folder, under its name."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 9, 2))
    steps = x.cumsum(axis=1)
    lengths = rng.integers(5, 10, 20)
    arrays = {
        "real": {
            "x": x,
            "y": 30 + 5 * steps[:, :, ::-1],
            "lengths": lengths,
            "mask": 1.0 * (rng.random((20, 9)) < 0.9),
        },
        "bits": {"x": x, "y": (steps > 0) * 1.0},
        "classes": {"x": x, "y": (steps > 0).sum(axis=2)},
        "same": {"x": steps[:, :-1], "y": steps[:, 1:]},
    }
    arrays["real"]["mask"][:, 0] = 1
    made = {}
    for name, each in arrays.items():
        np.savez(folder / f"{name}.npz", **each)
        made[name] = hfrnn.train(
            data=str(folder / f"{name}.npz"), out=folder / name, standardize=name == "real", **TRAINED
        ).folder
    np.savez(folder / "window.npz", x=oscillator()["pos"], y=oscillator()["vel"])
    made["window"] = hfrnn.train(data=str(folder / "window.npz"), window=40, out=folder / "window", **TRAINED).folder
    for name, columns, inputs, targets in (
        ("drive", driven(rng), "u", "temp,speed"), ("vdp", oscillator(), "pos,vel", "pos,vel"),
    ):  # fmt: skip
        table = str(write_table(folder / f"{name}.csv", columns))
        made[name] = hfrnn.train(
            data=table, inputs=tuple(inputs.split(",")), targets=tuple(targets.split(",")), window=40,
            out=folder / name, **TRAINED,
        ).folder  # fmt: skip
    return made
