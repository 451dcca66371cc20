from hfrnn.arrays.backend import Array as Array  # `Array` under its documented name.
