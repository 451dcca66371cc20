from hfrnn.optim.minimize import MinimumStop as MinimumStop  # `MinimumStop` under its documented name.
