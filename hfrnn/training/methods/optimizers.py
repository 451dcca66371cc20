"""The first-order optimizers by the names of `--optimizer`, and the hidden matrices of a network for Muon."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hfrnn.kernels.registry import vector_passes
from hfrnn.optim.average import Average
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.compiled_steps import OnePassAdam, OnePassAverage, OnePassSGD
from hfrnn.optim.first_order import SGD, Adam, AdamOptions, FirstOrder, SGDOptions
from hfrnn.optim.muon import Muon, MuonOptions
from hfrnn.optim.soap import SOAP, SOAPOptions

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.runs.config import TrainConfig


def make_optimizer(config: TrainConfig, net: Network, threads: int) -> FirstOrder:
    """Return the optimizer that the options name.

    Parameters
    ----------
    config : TrainConfig
        Its optimizer is sgd, adam, soap or muon.
    net : Network
    threads : int
        Threads that share the work of a step.
    """
    decay, passes = config.weight_decay, vector_passes(net.backend.variants)
    if config.optimizer == "sgd":
        options = SGDOptions(config.momentum or 0.0, nesterov=config.nesterov, decay=decay)
        return SGD(options, threads) if passes is None else OnePassSGD(passes, options, threads)
    if config.optimizer == "soap":
        return SOAP(net.matrix_blocks, SOAPOptions(decay=decay), threads)
    if config.optimizer == "muon":
        return Muon(hidden_matrices(net), MuonOptions(decay=decay), threads)
    adam = AdamOptions(decay=decay)
    return Adam(adam, threads) if passes is None else OnePassAdam(passes, adam, threads)


def make_average(config: TrainConfig, net: Network) -> Average:
    """Return the running average of the parameters; without `--average` it is turned off."""
    decay, passes = config.average or 0.0, vector_passes(net.backend.variants)
    return Average(decay) if passes is None else OnePassAverage(passes, decay)


def hidden_matrices(net: Network) -> list[MatrixBlock]:
    """Return the matrices that Muon makes orthogonal steps for.

    These are the recurrent matrices and `W_below` of every layer, and with an embedding also `W_x`. Without one, the
    rows of `W_x` belong to single symbols or inputs, as those of an embedding do. The gates are those of
    `Network.gates`. A block with three axes is a matrix for each index of the first axis.
    """
    found = []
    for block in net.parameters.blocks:
        group, _, name = block.name.partition(".")
        hidden = group.startswith("layer") and len(block.shape) >= 2 and (name != "W_x" or net.embedding is not None)
        if not hidden or not block.size:
            continue
        rows, columns = block.shape[-2:]
        gates, size = net.gates(block.name, columns), rows * columns
        for n in range(math.prod(block.shape[:-2])):
            found.append(MatrixBlock(block.start + n * size, rows, columns, gates))
    return found
