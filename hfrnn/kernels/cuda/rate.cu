// One step of rate: the equations of kernels/rate.py, under its numbers. leak (H,) holds the leak of each unit, and
// row t of rs and k (K+1, B, H) is that of step t-1.

#include "common.cuh"

extern "C" __global__ void rate_begin(Index n, Index kind, Index recorded, const real* x, real* rs, real* k)
{
    EACH(e, n);
    rs[e] = activate(kind, x[e]);  // F3
    if (recorded) k[e] = slope_of(kind, rs[e]);  // L1
}

// Before the step, row t of n holds the recurrent part of n_t; where no e is kept, n has one row.
extern "C" __global__ void rate_forward(
    Index t, Index B, Index H, Index kind, Index recorded, Index learned, const real* U, const real* leak, real* x,
    real* n, real* rs, real* k)
{
    EACH(e, B * H);
    const Index now = t * B * H + e, after = now + B * H;
    const real a = leak[e % H], kept = real(1) - a, before = x[e];
    real* n_t = n + (recorded && learned ? now : e);
    const real input = *n_t + U[now];  // F1
    const real x_t = before * kept + input * a;  // F2
    x[e] = x_t;
    rs[after] = activate(kind, x_t);  // F3
    if (recorded) k[after] = slope_of(kind, rs[after]);  // L1
    if (recorded && learned) *n_t = (input - before) * (a * kept);  // L2
}

// Rrs (K+1, B, H) starts with the tangent before the segment; Rq is read only where the leak is learned.
extern "C" __global__ void rate_rforward(
    Index t, Index B, Index H, Index learned, const real* RU, const real* Rn, const real* recurrent, const real* leak,
    const real* k, const real* e_kept, const real* Rq, real* Rx, real* Rrs)
{
    EACH(e, B * H);
    const Index j = e % H, now = t * B * H + e, after = now + B * H;
    const real Rn_t = Rn[now] + recurrent[e] + RU[now];  // R1
    real R = Rx[e] * (real(1) - leak[j]) + Rn_t * leak[j];  // R2
    if (learned) R += e_kept[now] * Rq[j];  // R2
    Rx[e] = R;
    Rrs[after] = k[after] * R;  // R3
}

// The adjoint of r_t is dr (dn_{t+1} @ W_h.T) + dhs_t. dx (B, H) changes from that of step t+1 to that of step t.
extern "C" __global__ void rate_backward(
    Index t, Index B, Index H, Index learned, const real* dhs, const real* dr, const real* leak, const real* k,
    const real* e_kept, real* dx, real* dU, real* de)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    const real a = leak[e % H], dx_t = dx[e] + (dr[e] + dhs[now]) * k[now + B * H];  // B1
    if (learned) de[now] = dx_t * e_kept[now];  // B5
    dU[now] = dx_t * a;  // B2
    dx[e] = dx_t * (real(1) - a);  // B4
}
