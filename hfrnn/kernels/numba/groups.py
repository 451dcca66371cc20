"""Compiled products of groups of rows with groups of columns, and the softmax of pieces of a vector.

Row t of h (N, H) has one output for each of the m columns of its group. The outputs of all rows lie one after another
in a vector. Line g of `groups` (G, 5) holds the first and last row of a group, its first and last column, and the place
of its first output. "Last" always means one past the last. A matrix W is given as its transpose (V, H), so that a
column is one piece of memory.

With few rows in a group, reading the columns of W takes most of the time. These loops read each column once, and take
several rows at a time. With many rows BLAS is faster.
"""

from __future__ import annotations

import math

from hfrnn.arrays.backend import Array
from hfrnn.kernels.numba.pointwise import compile_loop, compile_sums, inlined


@compile_loop
def fill_groups(bias: Array, groups: Array, z: Array) -> None:
    """Write the bias of each column, (V,), to the outputs of every row; zeros if the bias is empty."""
    for g in range(groups.shape[0]):
        t0, t1, j0, j1, place = groups[g]
        for _ in range(t0, t1):
            for j in range(j0, j1):
                z[place] = bias[j] if bias.shape[0] else 0
                place += 1


@compile_sums
def add_outputs(h: Array, W_T: Array, groups: Array, z: Array) -> None:
    """Add h @ W to the outputs of all groups."""
    H, zero = h.shape[1], h.dtype.type(0)
    for g in range(groups.shape[0]):
        t0, t1, j0, j1, place = groups[g]
        m, t = j1 - j0, t0
        while t + 4 <= t1:  # four rows at a time
            for j in range(j0, j1):
                s0 = s1 = s2 = s3 = zero
                for k in range(H):
                    w = W_T[j, k]
                    s0 += h[t, k] * w
                    s1 += h[t + 1, k] * w
                    s2 += h[t + 2, k] * w
                    s3 += h[t + 3, k] * w
                n = place + (t - t0) * m + j - j0
                z[n] += s0
                z[n + m] += s1
                z[n + 2 * m] += s2
                z[n + 3 * m] += s3
            t += 4
        while t < t1:
            n, j = place + (t - t0) * m, j0
            while j + 4 <= j1:  # four columns at a time
                s0 = s1 = s2 = s3 = zero
                for k in range(H):
                    x = h[t, k]
                    s0 += x * W_T[j, k]
                    s1 += x * W_T[j + 1, k]
                    s2 += x * W_T[j + 2, k]
                    s3 += x * W_T[j + 3, k]
                z[n] += s0
                z[n + 1] += s1
                z[n + 2] += s2
                z[n + 3] += s3
                n, j = n + 4, j + 4
            while j < j1:
                s0 = zero
                for k in range(H):
                    s0 += h[t, k] * W_T[j, k]
                z[n] += s0
                n, j = n + 1, j + 1
            t += 1


@compile_loop
def outputs_backward(h: Array, W_T: Array, groups: Array, dz: Array, grad_T: Array, dh: Array) -> None:
    """Write dz @ W.T to the rows of dh that belong to a group, and add h.T @ dz, transposed, to grad_T (V, H)."""
    for g in range(groups.shape[0]):
        t0, t1, j0, j1, place = groups[g]
        dh[t0:t1] = 0
        j = j0
        while j + 4 <= j1:  # four columns at a time, which stay in the cache
            _add_columns(t0, t1, j, place + j - j0, j1 - j0, W_T, dz, dh)
            for i in (j, j + 2):
                _add_rows(t0, t1, i, place + i - j0, j1 - j0, h, dz, grad_T)
            j += 4
        while j < j1:
            for t in range(t0, t1):
                d = dz[place + (t - t0) * (j1 - j0) + j - j0]
                for k in range(h.shape[1]):
                    dh[t, k] += d * W_T[j, k]
                    grad_T[j, k] += d * h[t, k]
            j += 1


@inlined
def _add_columns(t0: int, t1: int, j: int, place: int, m: int, W_T: Array, dz: Array, dh: Array) -> None:
    """Add to rows t0 to t1 of dh what columns j to j + 3 contribute; the output of row t0 and column j is at place."""
    H, t, n = dh.shape[1], t0, place
    while t + 2 <= t1:
        a0, a1, a2, a3 = dz[n], dz[n + 1], dz[n + 2], dz[n + 3]
        b0, b1, b2, b3 = dz[n + m], dz[n + m + 1], dz[n + m + 2], dz[n + m + 3]
        for k in range(H):
            w0, w1, w2, w3 = W_T[j, k], W_T[j + 1, k], W_T[j + 2, k], W_T[j + 3, k]
            dh[t, k] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
            dh[t + 1, k] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
        t, n = t + 2, n + 2 * m
    if t < t1:
        a0, a1, a2, a3 = dz[n], dz[n + 1], dz[n + 2], dz[n + 3]
        for k in range(H):
            dh[t, k] += a0 * W_T[j, k] + a1 * W_T[j + 1, k] + a2 * W_T[j + 2, k] + a3 * W_T[j + 3, k]


@inlined
def _add_rows(t0: int, t1: int, j: int, place: int, m: int, h: Array, dz: Array, grad_T: Array) -> None:
    """Add to rows j and j + 1 of grad_T what rows t0 to t1 of h contribute; places as in `_add_columns`."""
    H, t, n = h.shape[1], t0, place
    while t + 4 <= t1:
        a0, a1, a2, a3 = dz[n], dz[n + m], dz[n + 2 * m], dz[n + 3 * m]
        b0, b1, b2, b3 = dz[n + 1], dz[n + m + 1], dz[n + 2 * m + 1], dz[n + 3 * m + 1]
        for k in range(H):
            x0, x1, x2, x3 = h[t, k], h[t + 1, k], h[t + 2, k], h[t + 3, k]
            grad_T[j, k] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
            grad_T[j + 1, k] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        t, n = t + 4, n + 4 * m
    while t + 2 <= t1:
        a0, a1, b0, b1 = dz[n], dz[n + m], dz[n + 1], dz[n + m + 1]
        for k in range(H):
            grad_T[j, k] += a0 * h[t, k] + a1 * h[t + 1, k]
            grad_T[j + 1, k] += b0 * h[t, k] + b1 * h[t + 1, k]
        t, n = t + 2, n + 2 * m
    if t < t1:
        a0, b0 = dz[n], dz[n + 1]
        for k in range(H):
            grad_T[j, k] += a0 * h[t, k]
            grad_T[j + 1, k] += b0 * h[t, k]


@compile_loop
def add_column_sums(groups: Array, dz: Array, grad: Array) -> None:
    """Add the sum of each column's outputs to grad (V,)."""
    for g in range(groups.shape[0]):
        t0, t1, j0, j1, n = groups[g]
        for _ in range(t0, t1):
            for j in range(j0, j1):
                grad[j] += dz[n]
                n += 1


@compile_sums
def softmax_of_pieces(z: Array, starts: Array, pieces: Array, targets: Array, losses: Array) -> None:
    """Replace the outputs of every row by their softmax over a piece of them, and by 0 elsewhere.

    `pieces` (N, 2) holds the first and last place of a row's piece, `starts` (N,) the place of the row's first output
    and `targets` (N,) the place of its target; `losses` (N,) receives -log p[target].
    """
    N = starts.shape[0]
    for t in range(N):
        first, last = pieces[t]
        top = z[first]
        for n in range(first, last):
            top = max(top, z[n])
        chosen, total = z[targets[t]] - top, z.dtype.type(0)
        for n in range(first, last):
            p = math.exp(z[n] - top)
            z[n] = p
            total += p
        for n in range(first, last):
            z[n] /= total
        z[starts[t] : first] = 0
        z[last : starts[t + 1] if t + 1 < N else z.shape[0]] = 0
        losses[t] = math.log(total) - chosen


@compile_loop
def scale_pieces(factors: Array, starts: Array, z: Array) -> None:
    """Multiply the outputs of every row by its factor, (N,)."""
    N = starts.shape[0]
    for t in range(N):
        factor = factors[t]
        for n in range(starts[t], starts[t + 1] if t + 1 < N else z.shape[0]):
            z[n] *= factor


@compile_sums
def curve_pieces(p: Array, factors: Array, starts: Array, Rz: Array) -> None:
    """Replace the tangents Rz of every row's outputs by (p*Rz - p*(p.Rz)) times the row's factor."""
    N = starts.shape[0]
    for t in range(N):
        first, last = starts[t], starts[t + 1] if t + 1 < N else Rz.shape[0]
        mean, factor = p.dtype.type(0), factors[t]
        for n in range(first, last):
            mean += p[n] * Rz[n]
        for n in range(first, last):
            Rz[n] = (p[n] * Rz[n] - p[n] * mean) * factor
