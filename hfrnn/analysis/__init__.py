"""Analysis of trained networks: evaluation, dynamic evaluation and curvature spectra."""
