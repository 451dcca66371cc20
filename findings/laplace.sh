#!/usr/bin/env bash
# Empirical Fisher, Kronecker factors and sequences in laplace-torch.
#
# Guesses: the empirical Fisher matrix of a regression is that of half the squared error, as the loss is. Kronecker
# factors are exact for a linear layer and a squared error. The log-likelihood of sequences counts each step.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn. See docs/numbers-of-other-tools.md.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check torch==2.13.0 laplace-torch==0.3 curvlinops-for-pytorch==3.0.1 backpack-for-pytorch==1.7.1 asdfghjkl==0.1a4 torchmetrics==1.9.0 numpy==2.4.6
"$folder/bin/pip" uninstall -q -y torchvision  # a requirement that nothing here uses

"$folder/bin/python" - << 'END'
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")
import torch
from laplace import Laplace
from laplace.curvature import BackPackEF, CurvlinopsGGN
from torch.utils.data import DataLoader, TensorDataset

print(f"laplace-torch {version('laplace-torch')}, torch {torch.__version__}")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
noise, prior, N = 0.5, 0.7, 10
x = torch.randn(N, 3) + 1
y = x @ torch.ones(3, 1) + 0.3 * torch.randn(N, 1)
ones = torch.cat([x, torch.ones(N, 1)], 1)
precision = ones.T @ ones / noise**2 + prior * torch.eye(4)
theta = torch.linalg.solve(precision, ones.T @ y / noise**2).T


def fitted(backend, structure, inputs, targets):
    """Posterior of a linear layer at theta."""
    net = torch.nn.Linear(3, 1)
    net.weight.data.copy_(theta[:, :3])
    net.bias.data.copy_(theta[:, 3])
    posterior = Laplace(net, "regression", subset_of_weights="all", hessian_structure=structure, sigma_noise=noise, prior_precision=prior, backend=backend)
    posterior.fit(DataLoader(TensorDataset(inputs, targets), batch_size=5))
    return posterior


exact = fitted(CurvlinopsGGN, "full", x, y)
assert torch.allclose(exact.posterior_precision, precision)
gradients = (ones @ theta.T - y) * ones  # of half the squared error
fisher = fitted(BackPackEF, "full", x, y)
fact("Empirical Fisher matrix of a regression", "the sum of g g', for gradients g of half the squared error, which `loss` has", "twice that, and half that of the squared error", torch.allclose(fisher.H, 2 * gradients.T @ gradients) and torch.isclose(fisher.loss, ((ones @ theta.T - y) ** 2).sum() / 2))

kron = fitted(CurvlinopsGGN, "kron", x, y)
H = kron.H.to_matrix()
expected, found = (v(x)[1].flatten() for v in (exact, kron))
ratio = found / expected
fact("Structure `kron` of one linear layer, squared error", "the exact matrix", f"products of weights and bias are 0: variances of predictions are {ratio.min():.2f} to {ratio.max():.2f} times the exact ones", torch.allclose(H[:3, :3], ones[:, :3].T @ ones[:, :3]) and bool((H[3, :3] == 0).all()) and abs(ones.sum(0)[:3]).min() > 1 and ratio.min() < 0.8)

B, T = 20, 25
x = torch.randn(B, T, 3)
y = x @ theta[:, :3].T + theta[:, 3] + noise * torch.randn(B, T, 1)
sequences = fitted(CurvlinopsGGN, "full", x, y)
steps = fitted(CurvlinopsGGN, "full", x.reshape(-1, 3), y.reshape(-1, 1))
constant = torch.log(torch.tensor(noise * (2 * torch.pi) ** 0.5))
best = [float((2 * v.loss / v.n_data) ** 0.5) for v in (steps, sequences)]
fact("Noise of the highest `log_likelihood`, sequences of 25 steps", f"{best[0]:.2f}, as for their steps alone", f"{best[1]:.2f}, 5 times as large: all errors are in it, but log(noise) once for each sequence", torch.isclose(sequences.loss, steps.loss) and torch.allclose(sequences.H, steps.H) and torch.isclose(sequences.log_likelihood - steps.log_likelihood, (B * T - B) * constant))
raise SystemExit(wrong)
END
