"""The dynamics of trained networks: Jacobians of a step, fixed points, Lyapunov exponents, perturbations, trajectories.

All of it computes in float64 on the host, also for networks in float32 and on a GPU. `__init__.pyi` lists the public
names. Each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
