"""Arrays on every backend: array libraries, buffers, vectors, threads and named parameters."""
