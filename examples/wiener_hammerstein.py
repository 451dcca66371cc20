"""A Wiener-Hammerstein system, generated as the benchmark of Schoukens et al. 2009 describes it: a filter, a diode-like
nonlinearity, and a second filter.

The input is Gaussian noise up to 10 kHz, sampled at 51.2 kHz. The first filter is a Chebyshev low-pass of order 3 (0.5
dB ripple, 4.4 kHz); the nonlinearity saturates for positive voltages, as their circuit with a diode does; the second
filter is an inverse Chebyshev low-pass of order 3 (40 dB from 5 kHz on), which has a zero in the band. The circuit's
own data can be downloaded with the package `nonlinear-benchmarks`; here they are computed, so nothing is downloaded.

    pip install .                                   in a copy of the project
    python examples/wiener_hammerstein.py           writes wiener-hammerstein.csv and trains for a minute and a half

The file is a table with a row for each sample, as a data logger writes it. The same training as a command:

    hfrnn train --data wiener-hammerstein.csv --inputs u --targets y --window 200 --burn-in 50 --arch rnn --hidden 50

References
----------
J. Schoukens, J. Suykens, L. Ljung, Wiener-Hammerstein benchmark, 15th IFAC Symposium on System Identification, 2009.
"""

from __future__ import annotations

import csv

import numpy as np
from numpy.typing import NDArray
from scipy import signal

import hfrnn

RATE = 51_200.0
"""Samples a second."""
BAND, FIRST_CUTOFF, SECOND_STOP = 10_000.0, 4_400.0, 5_000.0
"""Edges of the input's band, of the first filter's pass band and of the second filter's stop band, in Hz."""
SATURATION = 0.4
"""Voltage at which the nonlinearity saturates, in standard deviations of its input."""
NOISE = 1e-3
"""Standard deviation of the measurement noise, as a share of the output's."""


def recording(samples: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a recording of the system: input and output (samples,)."""
    settle = 1000  # steps until the filters have forgotten their start
    u = signal.sosfilt(signal.butter(6, BAND, fs=RATE, output="sos"), rng.standard_normal(settle + samples))
    a = signal.sosfilt(signal.cheby1(3, 0.5, FIRST_CUTOFF, fs=RATE, output="sos"), u)
    a /= a[settle:].std()
    b = np.where(a > 0, SATURATION * np.tanh(a / SATURATION), a)
    y = signal.sosfilt(signal.cheby2(3, 40, SECOND_STOP, fs=RATE, output="sos"), b)
    u, y = u[settle:] / u[settle:].std(), y[settle:] / y[settle:].std()
    return u, y + NOISE * rng.standard_normal(samples)


def write_table(path: str, samples: int) -> None:
    """Write a recording as a table with the columns u and y."""
    u, y = recording(samples, np.random.default_rng(0))
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["u", "y"])
        table.writerows(zip(u.tolist(), y.tolist(), strict=True))


def main(minutes: float = 1.5, out: str = "runs/wiener-hammerstein", path: str = "wiener-hammerstein.csv",
         samples: int = 60_000) -> float:  # fmt: skip
    """Train a network on the recording, and return the mean squared error on its last part, scaled to variance 1."""
    write_table(path, samples)
    result = hfrnn.train(
        data=path, inputs=("u",), targets=("y",), window=200, burn_in=50, arch="rnn", hidden=50, minutes=minutes,
        out=out,
    )  # fmt: skip
    error = 2 * float(result.summary["best"]["valid_loss"])  # the loss is half of the squared error
    print(f"{result.summary['updates']} updates, mean squared error {error:.4g} where the output has variance 1")
    return error


if __name__ == "__main__":
    main()
