"""The low-rank network: it is `rate` with a recurrent matrix of that rank."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch, vectors

import hfrnn

H, RANK = 5, 2


def network(**changes: Any) -> hfrnn.Network:
    options = {"n_in": 4, "hidden": H, "n_out": 4, "rank": RANK, "dtype": "float64"}
    return hfrnn.Network("low-rank", **{**options, **changes})


def test_it_is_the_rate_network_whose_recurrent_matrix_is_the_product():
    shared = {"activation": "logistic", "leak": 0.3, "learn_leak": True}
    net, rate = network(**shared), hfrnn.Network("rate", 4, H, 4, dtype="float64", **shared)
    batch = random_batch(net, np.random.default_rng(0), ragged=True, carried=True)
    theta, v, _ = vectors(net, batch)
    twin, tangent = np.empty(rate.n_parameters), np.empty(rate.n_parameters)
    p, w = net.views(theta), net.views(v)
    N, M = p["layer0.N"], p["layer0.M"]
    for target, source in ((twin, p), (tangent, w)):
        for name, view in rate.views(target).items():
            if name != "layer0.W_h":
                view[...] = source[name]
    rate.views(twin)["layer0.W_h"][...] = N @ M / H
    rate.views(tangent)["layer0.W_h"][...] = (w["layer0.N"] @ M + N @ w["layer0.M"]) / H
    np.testing.assert_allclose(net.run(theta, batch)[0], rate.run(twin, batch)[0], rtol=1e-12)
    for mine, theirs in (
        (net.loss_and_gradient(theta, batch)[1], rate.loss_and_gradient(twin, batch)[1]),
        *(
            (net.gauss_newton(theta, batch, 0.7, metric=metric) @ v,
             rate.gauss_newton(twin, batch, 0.7, metric=metric) @ tangent)
            for metric in net.metrics
        ),
    ):  # fmt: skip
        dW = rate.views(theirs)["layer0.W_h"]
        expected = {**rate.views(theirs), "layer0.N": dW @ M.T / H, "layer0.M": N.T @ dW / H}
        for name, view in net.views(mine).items():
            np.testing.assert_allclose(view, expected[name], rtol=1e-10, atol=1e-14, err_msg=name)


def test_a_rank_of_0_is_refused():
    with pytest.raises(hfrnn.InputError, match="rank is 0: give a whole number, 1 or more"):
        network(rank=0)
