from .conversion import to_state as to_state
from .conversion import to_vectors as to_vectors
from .points import FixedPoints as FixedPoints
from .points import Linearization as Linearization
from .points import fixed_points as fixed_points
from .transition import step_jacobian as step_jacobian
