from hfrnn.engine.sampling import Drawn as Drawn  # `Drawn` under its documented name.
