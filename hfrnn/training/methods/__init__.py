"""Training methods: how an optimizer trains a network. Each optimizer is a class in a file of its own."""
