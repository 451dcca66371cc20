// One step of rate: the equations of kernels/rate.py, under its numbers. leak (H,) holds the leak of each unit, and
// row t of rs and k (K+1, B, H) is that of step t-1.

#include "common.cuh"
#include "rate.cuh"

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
    real* n_t = n + (recorded && learned ? now : e);
    real k_t, e_t;
    rs[after] = rate_unit(kind, *n_t + U[now], leak[e % H], x + e, &k_t, &e_t);  // F1-F3
    if (recorded) k[after] = k_t;  // L1
    if (recorded && learned) *n_t = e_t;  // L2
}

// Rrs (K+1, B, H) starts with the tangent before the segment; Rq is read only where the leak is learned.
extern "C" __global__ void rate_rforward(
    Index t, Index B, Index H, Index learned, const real* RU, const real* Rn, const real* recurrent, const real* leak,
    const real* k, const real* e_kept, const real* Rq, real* Rx, real* Rrs)
{
    EACH(e, B * H);
    const Index j = e % H, now = t * B * H + e, after = now + B * H;
    const real Rn_t = Rn[now] + recurrent[e] + RU[now], Rq_j = learned ? Rq[j] : real(0);  // R1
    Rrs[after] = rate_tangent(Rn_t, leak[j], k[after], e_kept[now], Rq_j, Rx + e);  // R2, R3
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
