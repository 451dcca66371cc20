"""What a training run keeps on disk: configuration, checkpoints, metrics and lock."""
