// One step of state-space, in two parts around the product with W_3: the equations of kernels/state_space.py, under its
// numbers. There are n states and m units; U, RU, dU and the products with W = [A, W_1] have n + m columns.

#include "common.cuh"

// Where nothing is recorded, gs and k have one row.
extern "C" __global__ void state_space_units(
    Index t, Index B, Index n, Index m, Index kind, Index recorded, const real* U, const real* recurrent, real* gs,
    real* k)
{
    EACH(e, B * m);
    const Index b = e / m, column = n + e % m, row = (recorded ? t * B * m : 0) + e;
    const real g = activate(kind, recurrent[b * (n + m) + column] + U[(t * B + b) * (n + m) + column]);  // F1, F2
    gs[row] = g;
    if (recorded) k[row] = slope_of(kind, g);  // L1
}

// of_units (B, n) is the product of the units with W_3; hs (K+1, B, n) starts with the state before the segment.
extern "C" __global__ void state_space_states(
    Index t, Index B, Index n, Index m, const real* U, const real* recurrent, const real* of_units, real* hs)
{
    EACH(e, B * n);
    const Index b = e / n, column = e % n;
    hs[(t + 1) * B * n + e] =
        recurrent[b * (n + m) + column] + U[(t * B + b) * (n + m) + column] + of_units[e];  // F3
}

// Ra (K, B, m) starts as the products of the states with R(W_1); the step leaves Rg_t in its row.
extern "C" __global__ void state_space_runits(
    Index t, Index B, Index n, Index m, const real* RU, const real* recurrent, const real* k, real* Ra)
{
    EACH(e, B * m);
    const Index b = e / m, column = n + e % m, now = t * B * m + e;
    const real R = Ra[now] + recurrent[b * (n + m) + column] + RU[(t * B + b) * (n + m) + column];  // R1
    Ra[now] = k[now] * R;  // R2
}

// more (K, B, n) holds the products of the states with R(A) and of the units with R(W_3).
extern "C" __global__ void state_space_rstates(
    Index t, Index B, Index n, Index m, const real* RU, const real* recurrent, const real* of_units, const real* more,
    real* Rhs)
{
    EACH(e, B * n);
    const Index b = e / n, column = e % n, now = t * B * n + e;
    const real R = recurrent[b * (n + m) + column] + RU[(t * B + b) * (n + m) + column];  // R3
    Rhs[now + B * n] = R + of_units[e] + more[now];  // R3
}

// recurrent (B, n) holds the part of dh_t that comes from step t+1.
extern "C" __global__ void state_space_backward_states(
    Index t, Index B, Index n, Index m, const real* dhs, const real* recurrent, real* ds, real* dU)
{
    EACH(e, B * n);
    const Index b = e / n, now = t * B * n + e;
    const real dh_t = recurrent[e] + dhs[now];
    dU[(t * B + b) * (n + m) + e % n] = ds[now] = dh_t;  // B1
}

extern "C" __global__ void state_space_backward_units(
    Index t, Index B, Index n, Index m, const real* dg, const real* k, real* das, real* dU)
{
    EACH(e, B * m);
    const Index b = e / m, now = t * B * m + e;
    dU[(t * B + b) * (n + m) + n + e % m] = das[now] = dg[e] * k[now];  // B2
}
