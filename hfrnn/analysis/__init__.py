"""What is computed from trained networks: evaluation, dynamic evaluation and spectra."""
