from hfrnn.arrays.threads import default_threads as default_threads  # `default_threads` under its documented name.
