// One step of gru, in two parts around the product with W_hg: the equations of kernels/gru.py, under its numbers.
// U and RU have 3H columns: r, z and g. Where nothing is recorded, rz, q and g have one row.

#include "common.cuh"

extern "C" __global__ void gru_reset(
    Index t, Index B, Index H, Index recorded, const real* U, const real* hs, real* rz, real* q, real* k_rz)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, row = recorded ? t : 0, at = (row * B + b) * 2 * H + j;
    const real *U_t = U + (t * B + b) * 3 * H + j, h = hs[t * B * H + e];
    const real r = sigma(rz[at] + U_t[0]), z = sigma(rz[at + H] + U_t[H]);  // F1
    rz[at] = r;
    rz[at + H] = z;
    q[row * B * H + e] = r * h;  // F2
    if (recorded) k_rz[at] = h * r * (real(1) - r);  // L1
}

extern "C" __global__ void gru_update(
    Index t, Index B, Index H, Index recorded, const real* U, real* hs, const real* rz, real* g, real* k_rz)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, row = recorded ? t : 0, at = (row * B + b) * 2 * H + j, now = t * B * H + e;
    const real z = rz[at + H], h = hs[now], g_t = tanh_of(g[row * B * H + e] + U[(t * B + b) * 3 * H + 2 * H + j]);
    hs[now + B * H] = z * (h - g_t) + g_t;  // F3, F4
    if (!recorded) return;
    k_rz[at + H] = (h - g_t) * z * (real(1) - z);  // L2
    g[now] = (real(1) - z) * (real(1) - g_t * g_t);  // L3
}

// Rhs (K+1, B, H) starts with the tangent before the segment. The step leaves k_z * Ra_z in Ra.
extern "C" __global__ void gru_rreset(
    Index t, Index B, Index H, const real* RU, const real* recurrent, const real* rz, const real* k_rz,
    const real* Rhs, real* Ra, real* Rq)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, at = (t * B + b) * 2 * H + j, row = b * 2 * H + j;
    const real* RU_t = RU + (t * B + b) * 3 * H + j;
    const real Ra_r = Ra[at] + recurrent[row] + RU_t[0], Ra_z = Ra[at + H] + recurrent[row + H] + RU_t[H];  // R1
    Rq[e] = k_rz[at] * Ra_r + rz[at] * Rhs[t * B * H + e];  // R2
    Ra[at + H] = k_rz[at + H] * Ra_z;
}

extern "C" __global__ void gru_rupdate(
    Index t, Index B, Index H, const real* RU, const real* recurrent, const real* rz, const real* k_g, const real* Ra,
    const real* Ra_g, real* Rhs)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, at = (t * B + b) * 2 * H + H + j, now = t * B * H + e;
    const real R = Ra_g[now] + recurrent[e] + RU[(t * B + b) * 3 * H + 2 * H + j];  // R3
    Rhs[now + B * H] = Ra[at] + k_g[now] * R + rz[at] * Rhs[now];  // R4
}

// The adjoint of h_t is dh + recurrent ((da_r, da_z) of step t+1 @ W_h.T) + dhs_t; the step leaves z * dh_t in dh.
extern "C" __global__ void gru_backward_update(
    Index t, Index B, Index H, const real* dhs, const real* recurrent, const real* rz, const real* k_rz,
    const real* k_g, real* dh, real* da, real* da_g, real* dU)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, at = (t * B + b) * 2 * H + H + j, now = t * B * H + e;
    real* dU_t = dU + (t * B + b) * 3 * H + j;
    const real dh_t = dh[e] + recurrent[e] + dhs[now];
    dU_t[H] = da[at] = dh_t * k_rz[at];  // B1
    dU_t[2 * H] = da_g[now] = dh_t * k_g[now];  // B1
    dh[e] = dh_t * rz[at];  // B4
}

extern "C" __global__ void gru_backward_reset(
    Index t, Index B, Index H, const real* dq, const real* rz, const real* k_rz, real* dh, real* da, real* dU)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, at = (t * B + b) * 2 * H + j;
    dU[(t * B + b) * 3 * H + j] = da[at] = dq[e] * k_rz[at];  // B3
    dh[e] += rz[at] * dq[e];  // B4
}
