"""Programs that run a trained network without hfrnn, in NumPy, PyTorch, ONNX and C."""
