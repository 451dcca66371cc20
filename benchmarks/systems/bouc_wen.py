"""A simulated oscillator with hysteresis: the Bouc-Wen benchmark, for test recordings that its training file lacks.

B1  m y'' + c y' + k y + z = u                                     y in m, u in N
B2  z' = alpha y' - beta (gamma |y'| z + delta y' |z|)             the hysteretic force

The Runge-Kutta rule of fourth order makes 20 steps for each sample of 1/750 s. Where the simulation reads the inputs of
the training file, it differs from the outputs there by their noise (benchmarks/test_bouc_wen.py).

Source of the equations, the constants and the inputs: Noel and Schoukens, "Hysteretic benchmark with a dynamic
nonlinearity", Workshop on Nonlinear System Identification Benchmarks, 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.signal import resample

MASS, DAMPING, STIFFNESS = 2.0, 10.0, 5e4  # kg, N s/m, N/m
ALPHA, BETA, GAMMA, DELTA = 5e4, 1e3, 0.8, -1.1
RATE, STEPS = 750.0, 20  # samples a second, steps for each sample
PERIOD, BAND, RMS = 8_192, (54, 1_639), 50.0  # samples, the lines from 5 to 150 Hz, N
Values = NDArray[np.float64]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _slopes(y: float, v: float, z: float, u: float) -> tuple[float, float, float]:
    force = (u - STIFFNESS * y - DAMPING * v - z) / MASS  # B1
    return v, force, ALPHA * v - BETA * (GAMMA * abs(v) * z + DELTA * v * abs(z))  # B2


@njit(cache=True)  # type: ignore[untyped-decorator]
def _outputs(u: Values, h: float) -> Values:
    """Return y before each step of h seconds, from rest, given the inputs at all steps and halves of steps."""
    y = v = z = 0.0
    found = np.empty(len(u) // 2)
    for i in range(len(found)):
        found[i] = y
        a = _slopes(y, v, z, u[2 * i])
        b = _slopes(y + h / 2 * a[0], v + h / 2 * a[1], z + h / 2 * a[2], u[2 * i + 1])
        c = _slopes(y + h / 2 * b[0], v + h / 2 * b[1], z + h / 2 * b[2], u[2 * i + 1])
        d = _slopes(y + h * c[0], v + h * c[1], z + h * c[2], u[2 * i + 2])
        y += h / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
        v += h / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
        z += h / 6 * (a[2] + 2 * b[2] + 2 * c[2] + d[2])
    return found


def simulated(fine: Values) -> Values:
    """Return y (N,) in m, from rest, given the force at 40 equidistant points for each sample and one at the end."""
    found: Values = _outputs(fine, 1 / RATE / STEPS)[::STEPS]
    return found


def periodic(u: Values, periods: int = 2) -> Values:
    """Return the last of some periods (N,) of the output, given one period of an input without high frequencies."""
    fine = np.tile(resample(u, len(u) * 2 * STEPS), periods)
    return simulated(np.append(fine, fine[0]))[-len(u) :]


def multisine(seed: int) -> tuple[Values, Values]:
    """Return one period of a multisine of the kind of the training file with other phases, and the output."""
    spectrum = np.zeros(PERIOD // 2 + 1, complex)
    lines = np.arange(BAND[0], BAND[1] + 1)
    spectrum[lines] = np.exp(2j * np.pi * np.random.default_rng(seed).uniform(size=lines.size))
    u: Any = np.fft.irfft(spectrum, PERIOD)
    u *= RMS / u.std()
    return u, periodic(u)


def sweep(amplitude: float = 40.0, low: float = 20.0, high: float = 50.0, rate: float = 1 / 6) -> tuple[Values, Values]:
    """Return a sine of some newton whose frequency rises by `rate` hertz a second, and the output."""
    samples = round((high - low) / rate * RATE)
    t = np.arange(samples * 2 * STEPS + 1) / (RATE * 2 * STEPS)
    fine = amplitude * np.sin(2 * np.pi * (low + rate * t / 2) * t)
    return fine[: -1 : 2 * STEPS], simulated(fine)
