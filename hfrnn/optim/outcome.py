"""Results of Hessian-free optimization: one update, why it failed, and why there is nothing more to do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from hfrnn.arrays.vectors import Vector
from hfrnn.errors import HfrnnError
from hfrnn.optim.cg import CGStop
from hfrnn.optim.hf_options import HessianFreeOptions
from hfrnn.wording import brief


class Failure(StrEnum):
    """Reason why an update left the parameters as they were; the log shows the value.

    Attributes
    ----------
    NO_DECREASE
        No trial step lowered the loss enough.
    NON_FINITE
        No trial loss, or no product, was finite.
    NO_STEP
        CG found no step: its first direction has no positive curvature.
    DIVERGED
        The last step raised the loss of the new batch by more than a tenth, or it is not finite (H13 of
        hessian_free.py). The parameters before that step are restored.

    Examples
    --------
    >>> from hfrnn.optim.outcome import Failure
    >>> [each.value for each in Failure]
    ['no_decrease', 'non_finite', 'no_step', 'diverged']
    """

    NO_DECREASE = "no_decrease"
    NON_FINITE = "non_finite"
    NO_STEP = "no_step"
    DIVERGED = "diverged"


class End(StrEnum):
    """Reason why there is nothing more to do: the gradient is 0, or too many updates in a row failed.

    Examples
    --------
    >>> from hfrnn.optim.outcome import End
    >>> [each.value for each in End]
    ['zero gradient', 'no progress']
    """

    SOLUTION = "zero gradient"
    NO_PROGRESS = "no progress"


class UpdateInterrupted(HfrnnError):
    """An update was abandoned because `should_stop` returned True; the optimizer is as before the update."""

    exit_code = 130


@brief
@dataclass(frozen=True)
class Update:
    """One update, with everything that the log shows about it.

    Attributes
    ----------
    theta : (n,) array
        New parameters; a copy of the old ones, or those before the last step, if the update failed.
    loss_before : float
        f before the update, on the objective of the gradient.
    loss_after : float
        f after the update, on the objective of the last line search (`search_objective`); NaN if the update was
        not measured, or if a part of its step is that of the last update (momentum).
    rho : float
        Ratio of the actual to the predicted decrease at the full step. May be minus infinity; NaN if the update was
        not measured or the gradient is 0.
    q : float
        Quadratic of CG at the full step.
    cg_iterations : int
    cg_stop : CGStop
        Why CG stopped.
    chosen_iteration : int
        Iteration of CG whose iterate was chosen.
    step_size : float
        Length of the step that the last line search chose, at most 1; 0 without success.
    mu, lambda_ : float
        Strengths of structural and of Tikhonov damping in this update.
    next_mu, next_lambda_ : float
        The strengths in the next update.
    gradient_norm, step_norm : float
        Euclidean norms of the gradient and of the step.
    smallest_curvature : float or None
        Smallest S.AS/S.S in CG; None without one.
    residual_norm, residual_drift : float, float or None
        Residual of CG and its error, as in `CGResult`.
    products : int
        Number of matrix products.
    evaluations : int
        Number of losses, not counting that of the gradient.
    failed : Failure or None
        Why the parameters did not change; None if they did, or if the gradient is 0.
    failures : int
        Number of failed updates in a row, this one included.
    ended : End or None
        Why there is nothing more to do; None if there is.
    seconds : dict of str to float
        Seconds for "gradient" (with its loss), "preconditioner" (its diagonal), "cg", "products" (a part of "cg",
        with the forward pass that they share) and "search" (every trial loss, also those inside CG).
    rho_model, rho_objective : str
        Model and objective of rho, as in `HessianFreeOptions`.
    search_objective : str
        Objective of the last line search: "gradient", "curvature" or "separate".

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> update = hfrnn.HessianFree().update(theta, objective)
    >>> update.cg_stop.value, update.mu, update.failed
    ('progress', 0.1, None)
    """

    theta: Vector
    loss_before: float
    loss_after: float
    rho: float
    q: float
    cg_iterations: int
    cg_stop: CGStop
    chosen_iteration: int
    step_size: float
    mu: float
    lambda_: float
    next_mu: float
    next_lambda_: float
    gradient_norm: float
    step_norm: float
    smallest_curvature: float | None
    residual_norm: float
    residual_drift: float | None
    products: int
    evaluations: int
    failed: Failure | None
    failures: int
    ended: End | None
    seconds: dict[str, float]
    rho_model: str
    rho_objective: str
    search_objective: str

    @property
    def success(self) -> bool:
        """Whether a step was taken."""
        return self.step_size > 0.0

    @property
    def loss(self) -> float:
        """The loss on the objective of the gradient: after the update if it was computed there, else before it."""
        return self.loss_after if self.loss_is_after else self.loss_before

    @property
    def loss_is_after(self) -> bool:
        """Whether `loss` is that of the new parameters."""
        return self.search_objective == "gradient" and not math.isnan(self.loss_after)


def undone(
    theta: Vector, f: float, strengths: tuple[float, float], gradient_seconds: float, options: HessianFreeOptions
) -> Update:
    """Return an update without a step: nothing was tried and nothing failed, as for a gradient of 0.

    `f` is the loss of the objective of the gradient; the strengths are mu and lambda of the damping.
    """
    mu, lambda_ = strengths
    return Update(
        theta=theta.copy(),
        loss_before=f,
        loss_after=f,
        rho=math.nan,
        q=0.0,
        cg_iterations=0,
        cg_stop=CGStop.RESIDUAL,
        chosen_iteration=0,
        step_size=0.0,
        mu=mu,
        lambda_=lambda_,
        next_mu=mu,
        next_lambda_=lambda_,
        gradient_norm=0.0,
        step_norm=0.0,
        smallest_curvature=None,
        residual_norm=0.0,
        residual_drift=None,
        products=0,
        evaluations=0,
        failed=None,
        failures=0,
        ended=End.SOLUTION,
        seconds={"gradient": gradient_seconds, "preconditioner": 0.0, "cg": 0.0, "products": 0.0, "search": 0.0},
        rho_model=options.rho_model,
        rho_objective=options.rho_objective,
        search_objective="gradient",
    )
