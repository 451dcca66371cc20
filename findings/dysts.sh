#!/usr/bin/env bash
# Lyapunov exponents that come with the chaotic systems of dysts.
#
# Guess: `maximum_lyapunov_estimated` is the largest of `lyapunov_spectrum_estimated`, within 20% in all systems, and
# `kaplan_yorke_dimension` follows from that spectrum within 1%.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check dysts==0.96 gluonts numpy

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

import numpy as np

warnings.simplefilter("ignore")
import dysts.flows
from dysts.systems import get_attractor_list

print(f"dysts {version('dysts')}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


def dimension(spectrum):
    """The dimension of Kaplan and Yorke."""
    falling = np.sort(spectrum)[::-1]
    sums = np.cumsum(falling)
    k = np.nonzero(sums >= 0)[0][-1]
    return k + 1 + (sums[k] / abs(falling[k + 1]) if k + 1 < len(falling) else 0)


systems = {name: getattr(dysts.flows, name)() for name in get_attractor_list()}
spectra = {name: each.lyapunov_spectrum_estimated for name, each in systems.items() if each.lyapunov_spectrum_estimated}
largest = {name: systems[name].maximum_lyapunov_estimated for name in spectra}
far = [name for name in spectra if largest[name] and abs(max(spectra[name]) / largest[name] - 1) > 0.2]
fact("systems whose largest exponent differs by more than 20% from that of the spectrum", 0,
     f"{len(far)} of {len(spectra)}", len(far) > len(spectra) / 4)
lorenz = spectra["Lorenz"]
fact("Lorenz", "the largest one is the same in both",
     f"{largest['Lorenz']:.3f}, and a spectrum of {', '.join(f'{each:.3f}' for each in lorenz)}",
     np.allclose([largest["Lorenz"], *lorenz], [0.892, 1.091, 0.030, -14.916], atol=6e-4))
off = [name for name, spectrum in spectra.items() if systems[name].kaplan_yorke_dimension
       and abs(dimension(spectrum) / systems[name].kaplan_yorke_dimension - 1) > 0.01]
fact("systems whose Kaplan-Yorke dimension is not that of their spectrum", 0, f"{len(off)}: {', '.join(off)}", len(off) > 5)
raise SystemExit(wrong)
END
