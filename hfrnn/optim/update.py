from hfrnn.optim.result import End as End  # The result of an update under its documented name.
from hfrnn.optim.result import Failure as Failure
from hfrnn.optim.result import Update as Update
