"""Recorded systems with their published splits, and where their files come from.

The files are looked for in the folders named `folder` under HFRNN_DATA (default: ../shared/data beside the project).
Nothing is downloaded: a missing file is an error with its official address.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

PROJECT = Path(__file__).resolve().parents[2]
Recording = tuple[NDArray[Any], NDArray[Any]]
"""Inputs and outputs, (steps,) each."""


@dataclass(frozen=True)
class System:
    """A recorded system: what is trained on, what is scored, and from which step on."""

    about: str
    address: str
    files: tuple[str, ...]
    washout: int
    unit: str
    read: Callable[..., tuple[Recording, dict[str, Recording]]]
    published: str

    def load(self) -> tuple[Recording, dict[str, Recording]]:
        """Return the recording to train on, and those to test on by name; an error if a file is missing."""
        folder = Path(os.environ.get("HFRNN_DATA", PROJECT.parent / "shared" / "data"))
        paths = [folder / each for each in self.files]
        missing = next((each for each in paths if not each.is_file()), None)
        if missing is not None:
            raise click.ClickException(f"there is no file {missing}: get it from {self.address}")
        return self.read(*paths)


def matlab(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a MATLAB file as vectors."""
    from scipy.io import loadmat

    return {name: np.ravel(each) for name, each in loadmat(path).items() if not name.startswith("__")}


def cascaded_tanks(path: Path) -> tuple[Recording, dict[str, Recording]]:
    import pandas

    table = pandas.read_csv(path)
    u, y, u_test, y_test = (table[name].to_numpy() for name in ("uEst", "yEst", "uVal", "yVal"))
    return (u, y), {"test": (u_test, y_test)}


def silverbox(path: Path) -> tuple[Recording, dict[str, Recording]]:
    """The first nine realisations of the multisine train; the last one and the arrow test."""
    content = matlab(path)
    u, y = content["V1"], content["V2"]
    last = 118_500
    return (u[40_650:last], y[40_650:last]), {
        "multisine": (u[last:127_400], y[last:127_400]), "arrow": (u[100:40_575], y[100:40_575]),
    }  # fmt: skip


def bouc_wen(path: Path) -> tuple[Recording, dict[str, Recording]]:
    """The whole training recording; tests that are simulated by the equations of the benchmark, without noise."""
    import bouc_wen as oscillator
    import h5py

    with h5py.File(path) as file:
        u, y = (np.ravel(file[f"multisine/{name}"]) for name in "uy")
    return (u, y), {"multisine": oscillator.multisine(seed=1), "sweep": oscillator.sweep()}


def rlc(train: Path, test: Path) -> tuple[Recording, dict[str, Recording]]:
    import pandas

    def read(path: Path) -> Recording:
        table = pandas.read_csv(path)
        return table["V_IN"].to_numpy(), table["V_C"].to_numpy()

    return read(train), {"test": read(test)}


def wiener_hammerstein(path: Path) -> tuple[Recording, dict[str, Recording]]:
    content = matlab(path)
    u, y = (content[name][5_200:184_000] for name in ("uBenchMark", "yBenchMark"))
    return (u[:100_000], y[:100_000]), {"test": (u[100_000:], y[100_000:])}


def emps(train: Path, test: Path) -> tuple[Recording, dict[str, Recording]]:
    first, other = (matlab(each) for each in (train, test))
    return (first["vir"], first["qm"]), {"test": (other["vir"], other["qm"])}


def coupled_drives(path: Path) -> tuple[Recording, dict[str, Recording]]:
    """The recording with the small input alone; its first 400 samples train."""
    content = matlab(path)
    u, y = content["u11"], content["z11"]
    return (u[:400], y[:400]), {"test": (u[400:], y[400:])}


def slow(*paths: Path) -> tuple[Recording, dict[str, Recording]]:
    """A simulated system: time constants of 5 and 200 steps, a static nonlinearity, 1% noise, 5% missing, one gap."""
    rng = np.random.default_rng(5)
    made = []
    for steps in (6_000, 4_000):
        u = np.repeat(rng.uniform(-1, 1, steps // 25), 25) + 0.3 * rng.normal(size=steps)
        fast = late = 0.0
        y = np.empty(steps)
        for t, each in enumerate(u):
            y[t] = np.tanh(1.5 * late) + 0.3 * late**2
            fast += (each - fast) / 5
            late += (2 * fast - late) / 200
        made.append((u, y))
    (u, y), test = made
    y = y + 0.01 * y.std() * rng.normal(size=len(y))
    y[rng.uniform(size=len(y)) < 0.05] = np.nan
    y[3_000:3_100] = np.nan
    return (u, y), {"test": test}


ADDRESS = "https://www.nonlinearbenchmark.org/benchmarks/"
SYSTEMS = {
    "cascaded-tanks": System(
        "water level of two tanks, 1,024 samples of 4 s", ADDRESS + "cascaded-tanks",
        ("cascaded-tanks/dataBenchmark.csv",), 50, "V", cascaded_tanks,
        "gru 0.396, OLSTM 0.471, ARX 0.685, PNARX 0.413 (arXiv 2405.10779)",
    ),
    "silverbox": System(
        "electronic Duffing oscillator", ADDRESS + "silverbox", ("silverbox/SNLS80mV.mat",), 50, "V", silverbox,
        "arrow 0.0028, without its extrapolation 0.00095, multisine 0.0015 (arXiv 2405.10779)",
    ),
    "bouc-wen": System(
        "hysteretic oscillator; the tests are simulated", ADDRESS + "bouc-wen",
        ("bouc-wen/train.h5",), 50, "m", bouc_wen, "of the official test recording: dynoNet 4.52e-5, "
        "polynomial state space 1.87e-5",
    ),
    "rlc": System(
        "nonlinear RLC circuit, simulated", "https://github.com/forgi86/sysid-neural-structures-fitting",
        ("rlc/RLC_data_id.csv", "rlc/RLC_data_val.csv"), 50, "V", rlc, "",
    ),
    "slow": System("simulated: time constants of 5 and 200 steps", "", (), 200, "", slow, ""),
    "wiener-hammerstein": System(
        "electronic filter, diode, filter",
        "http://www.ee.kth.se/~hjalmars/ifac_tc11_benchmarks/2009_wienerhammerstein/WienerHammerBenchMark.mat",
        ("wiener-hammerstein/WienerHammerBenchMark.mat",), 50, "V", wiener_hammerstein, "",
    ),
    "emps": System(
        "electro-mechanical positioning system with friction", ADDRESS + "emps",
        ("emps/DATA_EMPS.mat", "emps/DATA_EMPS_PULSES.mat"), 20, "m", emps, "",
    ),
    "coupled-drives": System(
        "two motors and a belt",
        "http://www.it.uu.se/research/publications/reports/2017-024/"
        "CoupledElectricDrivesDataSetAndReferenceModels.zip",
        ("coupled-drives/DATAUNIF.MAT",), 10, "ticks/s", coupled_drives, "",
    ),
}  # fmt: skip
