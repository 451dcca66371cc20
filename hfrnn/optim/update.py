from hfrnn.optim.result import *  # noqa: F403  The documented names `Update`, `Failure` and `End`.
