"""The order in which shards are added, written out."""


def by_recursion(values):
    """Return the sum in the order of T1, written out."""
    if len(values) == 1:
        return values[0]
    middle = (len(values) + 1) // 2
    return by_recursion(values[:middle]) + by_recursion(values[middle:])
