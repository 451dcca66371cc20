// One step of both memory cells, for lstm, lstm-krause, mlstm and mlstm-standard: the equations of kernels/cells.py,
// under its numbers.
//
// The gates i, f, o and g of a unit are H columns apart. U, RU and dU have S columns, of which the first 4H are used.
// Before a forward step, row t of k holds the recurrent part of a_t; the step replaces it by the coefficients. Where
// nothing is recorded, k has one row, which is not changed. cs (2, B, H) holds c_{t-1} and c_t in turn.

#include "common.cuh"
#include "cells.cuh"

extern "C" __global__ void cell_forward(
    Index t, Index B, Index H, Index S, Index krause, Index recorded, const real* U, real* cs, real* hs, real* k,
    real* f_kept, real* k_c)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    const real* U_t = U + (t * B + b) * S + j;
    real *k_t = k + ((recorded ? t : 0) * B + b) * 4 * H + j, a[4], c = cs[(t % 2) * B * H + e], f, slope;
    for (int g = 0; g < 4; g++) a[g] = k_t[g * H] + U_t[g * H];
    hs[now + B * H] = cell(krause, a, &c, &f, &slope);  // F1-F4, L1-L5
    cs[((t + 1) % 2) * B * H + e] = c;
    if (!recorded) return;
    for (int g = 0; g < 4; g++) k_t[g * H] = a[g];
    f_kept[now] = f;
    k_c[now] = slope;
}

// The tangent of a_t is Ra_t + recurrent + RU_t. Rc (B, H) changes from that of step t-1 to that of step t.
extern "C" __global__ void cell_rforward(
    Index t, Index B, Index H, Index S, const real* RU, const real* Ra, const real* recurrent, const real* k,
    const real* f, const real* k_c, real* Rc, real* Rhs)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e, at = (t * B + b) * 4 * H + j;
    real R[4];
    for (int g = 0; g < 4; g++)
        R[g] = Ra[at + g * H] + recurrent[(b * 4 + g) * H + j] + RU[(t * B + b) * S + g * H + j];
    Rhs[now] = cell_tangent(k + at, R, f[now], k_c[now], H, Rc + e);  // R1, R2
}

// The adjoint of h_t is dh (B, H) + dhs_t. dc (B, H) changes from the adjoint of c_t to that of c_{t-1}. da (K, B, 4H)
// and the first columns of dU receive the same values; they are one array where S = 4H.
extern "C" __global__ void cell_backward(
    Index t, Index B, Index H, Index S, const real* dhs, const real* k, const real* f, const real* k_c, const real* dh,
    real* dc, real* da, real* dU)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e, at = (t * B + b) * 4 * H + j;
    real d[4];
    cell_adjoint(k + at, dh[e] + dhs[now], f[now], k_c[now], H, dc + e, d);  // B1, B2, B4
    for (int g = 0; g < 4; g++) dU[(t * B + b) * S + g * H + j] = da[at + g * H] = d[g];
}
