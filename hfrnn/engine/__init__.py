"""Losses, gradients and curvature products of recurrent networks on batches of sequences."""
