// One step of low-rank, in two parts around the product with M: the equations of kernels/low_rank.py, under its numbers.
// leak (H,) holds the leak of each unit, R is the rank, and row t of rs and k (K+1, B, H) is that of step t-1.

#include "common.cuh"

extern "C" __global__ void low_rank_begin(Index n, Index kind, Index recorded, const real* x, real* rs, real* k)
{
    EACH(e, n);
    rs[e] = activate(kind, x[e]);  // F4
    if (recorded) k[e] = slope_of(kind, rs[e]);  // L1
}

// Divides n products by H: those of the rates in the forward pass, of the adjoints in the backward pass.
extern "C" __global__ void low_rank_scale(Index n, Index H, real* s)
{
    EACH(e, n);
    s[e] /= H;  // F1, B3
}

// Rs (K, B, R) starts as the products of the rates with R(N).
extern "C" __global__ void low_rank_roverlap(Index t, Index n, Index H, const real* overlap, real* Rs)
{
    EACH(e, n);
    Rs[t * n + e] = (Rs[t * n + e] + overlap[e]) / H;  // R1
}

// Before the step, row t of c holds the product of s_t with M; where no e is kept, c has one row.
extern "C" __global__ void low_rank_forward(
    Index t, Index B, Index H, Index kind, Index recorded, Index learned, const real* U, const real* leak, real* x,
    real* c, real* rs, real* k)
{
    EACH(e, B * H);
    const Index now = t * B * H + e, after = now + B * H;
    const real a = leak[e % H], kept = real(1) - a, before = x[e];
    real* c_t = c + (recorded && learned ? now : e);
    const real input = *c_t + U[now];  // F2
    const real x_t = before * kept + input * a;  // F3
    x[e] = x_t;
    rs[after] = activate(kind, x_t);  // F4
    if (recorded) k[after] = slope_of(kind, rs[after]);  // L1
    if (recorded && learned) *c_t = (input - before) * (a * kept);  // L2
}

// Rrs (K+1, B, H) starts with the tangent before the segment; Rq is read only where the leak is learned.
extern "C" __global__ void low_rank_rforward(
    Index t, Index B, Index H, Index learned, const real* RU, const real* Rc, const real* recurrent, const real* leak,
    const real* k, const real* e_kept, const real* Rq, real* Rx, real* Rrs)
{
    EACH(e, B * H);
    const Index j = e % H, now = t * B * H + e, after = now + B * H;
    const real Rc_t = Rc[now] + recurrent[e] + RU[now];  // R2
    real R = Rx[e] * (real(1) - leak[j]) + Rc_t * leak[j];  // R3
    if (learned) R += e_kept[now] * Rq[j];  // R3
    Rx[e] = R;
    Rrs[after] = k[after] * R;  // R4
}

// The adjoint of r_t is dr (ds_{t+1} @ N.T) + dhs_t. dx (B, H) changes from that of step t+1 to that of step t.
extern "C" __global__ void low_rank_backward(
    Index t, Index B, Index H, Index learned, const real* dhs, const real* dr, const real* leak, const real* k,
    const real* e_kept, real* dx, real* dU, real* de)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    const real a = leak[e % H], dx_t = dx[e] + (dr[e] + dhs[now]) * k[now + B * H];  // B1
    if (learned) de[now] = dx_t * e_kept[now];  // B6
    dU[now] = dx_t * a;  // B2
    dx[e] = dx_t * (real(1) - a);  // B5
}
