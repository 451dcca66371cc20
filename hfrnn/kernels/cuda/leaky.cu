// One step of leaky: the equations of kernels/leaky.py, under its numbers. leak (H,) holds the leak of each unit.

#include "common.cuh"
#include "leaky.cuh"

// Before the step, row t of g holds the recurrent part of a_t; where nothing is recorded, g has one row.
extern "C" __global__ void leaky_forward(
    Index t, Index B, Index H, Index kind, Index recorded, Index learned, const real* U, const real* leak,
    const real* g, real* hs, real* k, real* e_kept)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    real k_t, e_t;
    hs[now + B * H] = leaky_unit(kind, g[recorded ? now : e] + U[now], leak[e % H], hs[now], &k_t, &e_t);  // F1-F3
    if (recorded) k[now] = k_t;  // L1
    if (recorded && learned) e_kept[now] = e_t;  // L2
}

// Rhs (K+1, B, H) starts with the tangent before the segment; Rq is read only where the leak is learned.
extern "C" __global__ void leaky_rforward(
    Index t, Index B, Index H, Index learned, const real* RU, const real* Ra, const real* recurrent, const real* leak,
    const real* k, const real* e_kept, const real* Rq, real* Rhs)
{
    EACH(e, B * H);
    const Index j = e % H, now = t * B * H + e;
    const real Ra_t = Ra[now] + recurrent[e] + RU[now], Rq_j = learned ? Rq[j] : real(0);  // R1
    Rhs[now + B * H] = leaky_tangent(Ra_t, leak[j], Rhs[now], k[now], e_kept[now], Rq_j);  // R2
}

// The adjoint of h_t is dh + recurrent (da_{t+1} @ W_h.T) + dhs_t; the step leaves (1-leak) * dh_t in dh.
extern "C" __global__ void leaky_backward(
    Index t, Index B, Index H, Index learned, const real* dhs, const real* recurrent, const real* leak, const real* k,
    const real* e_kept, real* dh, real* dU, real* de)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    const real dh_t = dh[e] + recurrent[e] + dhs[now];
    dU[now] = dh_t * k[now];  // B1
    if (learned) de[now] = dh_t * e_kept[now];  // B3
    dh[e] = dh_t * (real(1) - leak[e % H]);  // B2
}
