"""The online LSTM rule against its definition, weight by weight, and against backpropagation where both agree."""

import numpy as np
import pytest

from hfrnn import Batch, InputError, Network, NonFiniteError
from hfrnn.engine.online_lstm import OnlineLSTM
from hfrnn.optim.first_order import SGDOptions


def network(**options):
    arguments = {"arch": "lstm-krause", "n_in": 4, "hidden": 3, "n_out": 4, "loss": "softmax", "dtype": "float64"}
    return Network(**(arguments | options))


VARIANTS = {
    "softmax": {}, "biases": {"bias": True, "output_bias": True},
    "class-softmax": {"loss": "class-softmax", "classes": 2}, "squared": {"loss": "squared", "n_out": 2},
    "logistic": {"loss": "logistic", "n_out": 2, "bias": True},
    "real inputs": {"loss": "squared", "n_out": 2, "n_in": 2, "real": True},
}  # fmt: skip


@pytest.fixture(params=VARIANTS)
def problem(request):
    return make_problem(request.param)


def make_problem(variant, T=6, B=2):
    options = dict(VARIANTS[variant])
    real = options.pop("real", False)
    net, rng = network(**options), np.random.default_rng(5)
    theta = net.init(3, scale=0.7, b=0.5) if options.get("bias") else net.init(3, scale=0.7)
    inputs = rng.standard_normal((T, B, 2)) if real else rng.integers(0, 4, (T, B))
    targets = rng.integers(0, 4, (T, B)) if "softmax" in net.loss_name else rng.random((T, B, 2))
    return net, theta, inputs, targets


def sigma(x):
    return 1 / (1 + np.exp(-x))


class ByTheDefinition:
    """SPEC 7 for one stream: for every cell and weight, the number dc/dw."""

    def __init__(self, net):
        self.net, self.H = net, net.hidden[0]
        self.h, self.c = np.zeros(self.H), np.zeros(self.H)
        self.dc_dw = {}  # by block, (rows, gates, cells)

    def gradient(self, theta, x, target):
        net, w = self.net, self.net.views(theta)
        x = np.eye(net.n_in)[x] if np.ndim(x) == 0 else x
        sources = {"layer0.W_x": x, "layer0.W_h": self.h.copy()}
        if "layer0.b" in w:
            sources["layer0.b"] = np.ones(1)
        a = sum(source @ w[name].reshape(source.size, -1) for name, source in sources.items()).reshape(4, self.H)
        i, f, o, g = sigma(a[0]), sigma(a[1]), sigma(a[2]), a[3]
        before, self.c = self.c, f * self.c + i * g
        self.h = np.tanh(self.c * o)
        loss, dh, gradient = self.output(w, target)
        dzeta = dh * (1 - self.h**2)
        direct = np.stack([g * i * (1 - i), before * f * (1 - f), 0 * o, i])
        for name, source in sources.items():
            self.dc_dw[name] = f * self.dc_dw.get(name, 0.0) + direct * source[:, None, None]
            dW = dzeta * o * self.dc_dw[name]
            dW[:, 2] = dzeta * self.c * o * (1 - o) * source[:, None]
            gradient[name] = dW.reshape(w[name].shape)
        return loss, gradient

    def output(self, w, target):
        z = self.h @ w["output.W_y0"] + w.get("output.b_y", 0)
        if self.net.loss_name == "squared":
            loss, dz = ((z - target) ** 2).sum() / 2, z - target
        else:
            p = np.exp(z) / np.exp(z).sum()
            loss, dz = -np.log(p[target]), p - np.eye(z.size)[target]
        gradient = {"output.W_y0": np.outer(self.h, dz), "output.b_y": dz}
        return loss, w["output.W_y0"] @ dz, {name: gradient[name] for name in gradient.keys() & w.keys()}


def by_the_definition(net, theta, inputs, targets, lr, momentum, decay):
    theta, velocity, losses = theta.copy(), np.zeros_like(theta), []
    streams = [ByTheDefinition(net) for _ in range(inputs.shape[1])]
    for x, y in zip(inputs, targets, strict=True):
        results = [stream.gradient(theta, x[b], y[b]) for b, stream in enumerate(streams)]
        losses.append(np.mean([loss for loss, _ in results]))
        mean = np.zeros_like(theta)
        for name, view in net.views(mean).items():
            view[...] = np.mean([gradient[name] for _, gradient in results], axis=0)
        velocity = momentum * velocity - lr * mean
        theta = theta + velocity - lr * decay * theta
    return np.mean(losses), theta


@pytest.mark.parametrize("variant", ["softmax", "biases", "squared", "real inputs"])
@pytest.mark.parametrize("options", [SGDOptions(0.0), SGDOptions(0.6, decay=0.05)], ids=["plain", "momentum"])
def test_updates_are_those_of_the_definition_weight_by_weight(variant, options):
    net, theta, inputs, targets = make_problem(variant)
    loss, expected = by_the_definition(net, theta, inputs, targets, 0.4, options.momentum, options.decay)
    found = theta.copy()
    assert OnlineLSTM(net, 2, options).run(found, inputs, targets, 0.4) == pytest.approx(loss, rel=1e-13)
    for name, view in net.views(found).items():
        assert np.abs(view - net.views(expected)[name]).max() < 1e-12, name
        assert np.abs(view - net.views(theta)[name]).max() > 1e-3, name


def assert_same_blocks(net, found, expected):
    for name, view in net.views(expected).items():
        assert np.abs(net.views(found)[name] - view).max() < 1e-13, name
        assert np.abs(view).max() > 1e-4 or name == "layer0.W_h", name


def test_from_a_given_state_without_traces_the_gradient_is_backpropagations_too(problem):
    net, theta, inputs, targets = problem
    rng = np.random.default_rng(1)
    state = {"h": rng.uniform(-0.9, 0.9, (2, 3)), "c": rng.standard_normal((2, 3))}
    rule = OnlineLSTM(net, 2)
    rule.load_state_dict(rule.state_dict() | state)
    _, gradient = rule.loss_and_gradient(theta, inputs[0], targets[0])
    _, expected = net.loss_and_gradient(theta, Batch(inputs[:1], targets[:1], initial_state=[state]))
    assert np.abs(net.views(expected)["layer0.W_h"]).max() > 1e-4
    assert_same_blocks(net, gradient, expected)


def test_without_recurrent_weights_the_gradients_of_all_steps_add_up_to_backpropagation_through_time(problem):
    # nothing then leads from h' to a, and what the rule leaves out is zero
    net, theta, inputs, targets = problem
    net.views(theta)["layer0.W_h"][...] = 0
    rule, T = OnlineLSTM(net, 2), len(inputs)
    total = sum(rule.loss_and_gradient(theta, inputs[t], targets[t])[1] for t in range(T)) / T
    _, expected = net.loss_and_gradient(theta, Batch(inputs, targets))
    assert np.abs(net.views(expected)["layer0.W_h"]).max() > 1e-4
    assert_same_blocks(net, total, expected)


def test_a_run_is_its_steps():
    net, theta, inputs, targets = make_problem("softmax")
    whole, single = theta.copy(), theta.copy()
    loss = OnlineLSTM(net, 2).run(whole, inputs, targets, 0.1)
    rule = OnlineLSTM(net, 2)
    losses = [rule.step(single, x, y, 0.1) for x, y in zip(inputs, targets, strict=True)]
    assert np.array_equal(whole, single)
    assert loss == pytest.approx(np.mean(losses), rel=1e-15)


def test_a_gradient_is_the_callers_own():
    net, theta, inputs, targets = make_problem("softmax")
    rule = OnlineLSTM(net, 2)
    _, gradient = rule.loss_and_gradient(theta, inputs[0], targets[0])
    before = gradient.copy()
    rule.loss_and_gradient(theta, inputs[1], targets[1])
    assert np.array_equal(gradient, before)


def test_going_on_from_a_state_dict_gives_the_same_bits():
    net, theta, inputs, targets = make_problem("softmax", T=20)
    rule, resumed = OnlineLSTM(net, 2, SGDOptions(0.7)), OnlineLSTM(net, 2, SGDOptions(0.7))
    rule.run(theta, inputs[:10], targets[:10], 0.3)
    at = theta.copy()
    resumed.load_state_dict(rule.state_dict())
    rule.run(theta, inputs[10:], targets[10:], 0.3)
    resumed.run(at, inputs[10:], targets[10:], 0.3)
    assert np.array_equal(theta, at)
    assert all(np.array_equal(a, resumed.state_dict()[name]) for name, a in rule.state_dict().items())


def test_reset_forgets_states_and_traces_but_not_the_momentum():
    net, theta, inputs, targets = make_problem("softmax")
    rule = OnlineLSTM(net, 2, SGDOptions(0.7))
    rule.run(theta, inputs, targets, 0.3)
    velocity = rule.state_dict()["optimizer.momentum"]
    rule.reset()
    state = rule.state_dict()
    assert np.array_equal(state["optimizer.momentum"], velocity)
    assert np.abs(velocity).max() > 0
    fresh = OnlineLSTM(net, 2).state_dict()
    assert all(np.array_equal(state[name], fresh[name]) for name in fresh if not name.startswith("optimizer."))


@pytest.mark.parametrize(("options", "words"), [
    ({"arch": "lstm"}, "lstm with 1 layer"), ({"hidden": (3, 3)}, "with 2 layers"), ({"embedding": 2}, "embedding"),
    ({"l2": 0.1}, "l2"), ({"learn_initial_state": True}, "no traces for a learned initial state"),
])  # fmt: skip
def test_a_network_that_the_rule_is_not_defined_for_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        OnlineLSTM(network(**options), 2)


def test_bad_arguments_change_nothing():
    net, theta, inputs, targets = make_problem("softmax")
    rule = OnlineLSTM(net, 2)
    before, state = theta.copy(), rule.state_dict()
    bad = {
        "streams": (theta, inputs[:, :1], targets[:, :1], 0.1), "lr": (theta, inputs, targets, 0.0),
        "float64": (theta.astype("float32"), inputs, targets, 0.1), "shape": (theta[1:], inputs, targets, 0.1),
        "symbols": (theta, inputs + 4, targets, 0.1),
    }  # fmt: skip
    for words, arguments in bad.items():
        with pytest.raises(InputError, match=words):
            rule.run(*arguments)
    with pytest.raises(InputError, match="0: give a whole number, 1"):
        OnlineLSTM(net, 0)
    for changed in ({"h": np.zeros((3, 3))}, {"trace.W_x": None}, {"optimizer.kind": "adam"}):
        with pytest.raises(InputError):
            rule.load_state_dict(state | {"c": np.ones((2, 3))} | changed)
    assert np.array_equal(theta, before)
    assert all(np.array_equal(value, state[name]) for name, value in rule.state_dict().items())


def test_a_step_that_is_not_finite_leaves_the_parameters_of_the_step_before():
    net, theta, inputs, targets = make_problem("squared")
    targets[3] = 1e200  # the loss overflows here
    rule, other = OnlineLSTM(net, 2), OnlineLSTM(net, 2)
    expected = theta.copy()
    other.run(expected, inputs[:3], targets[:3], 0.1)
    with pytest.raises(NonFiniteError):
        rule.run(theta, inputs, targets, 0.1)
    assert np.array_equal(theta, expected)
