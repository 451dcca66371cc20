"""What several tests share: networks, batches, runs and stand-ins for devices and servers."""
