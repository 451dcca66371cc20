// One step of gru, in two parts around the product with W_hg: the equations of kernels/gru.py, under its numbers.

#include "common.cuh"
#include "gru.cuh"

// Before the step, row t of rz holds the product with W_h, which the gates replace; where nothing is recorded, row 0.
extern "C" __global__ void gru_reset(
    Index t, Index B, Index H, Index recorded, const real* U, const real* hs, real* rz, real* q, real* k_rz)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, at = ((recorded ? t : 0) * B + b) * 2 * H + j;
    gru_reset_unit(t, b, j, B, H, recorded, rz[at], rz[at + H], U, hs, rz, q, k_rz);  // F1, F2, L1
}

// Before the step, row t of g holds the product with W_hg, which the coefficient replaces.
extern "C" __global__ void gru_update(
    Index t, Index B, Index H, Index recorded, const real* U, real* hs, const real* rz, real* g, real* k_rz)
{
    EACH(e, B * H);
    const real g_sum = g[(recorded ? t * B * H : 0) + e];
    gru_update_unit(t, e / H, e % H, B, H, recorded, g_sum, U, hs, rz, g, k_rz);  // F3, F4, L2, L3
}

extern "C" __global__ void gru_rreset(
    Index t, Index B, Index H, const real* RU, const real* recurrent, const real* rz, const real* k_rz,
    const real* Rhs, real* Ra, real* Rq)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, row = b * 2 * H + j;
    Rq[e] = gru_reset_tangent(t, b, j, B, H, recurrent[row], recurrent[row + H], RU, rz, k_rz, Rhs, Ra);  // R1, R2
}

extern "C" __global__ void gru_rupdate(
    Index t, Index B, Index H, const real* RU, const real* recurrent, const real* rz, const real* k_g, const real* Ra,
    const real* Ra_g, real* Rhs)
{
    EACH(e, B * H);
    gru_update_tangent(t, e / H, e % H, B, H, recurrent[e], RU, rz, k_g, Ra, Ra_g, Rhs);  // R3, R4
}

// The adjoint of h_t is dh + recurrent ((da_r, da_z) of step t+1 @ W_h.T) + dhs_t; the step leaves z * dh_t in dh.
extern "C" __global__ void gru_backward_update(
    Index t, Index B, Index H, const real* dhs, const real* recurrent, const real* rz, const real* k_rz,
    const real* k_g, real* dh, real* da, real* da_g, real* dU)
{
    EACH(e, B * H);
    const real dh_t = dh[e] + recurrent[e] + dhs[t * B * H + e];
    dh[e] = gru_update_adjoint(t, e / H, e % H, B, H, dh_t, rz, k_rz, k_g, da, da_g, dU);  // B1, B4
}

extern "C" __global__ void gru_backward_reset(
    Index t, Index B, Index H, const real* dq, const real* rz, const real* k_rz, real* dh, real* da, real* dU)
{
    EACH(e, B * H);
    dh[e] += gru_reset_adjoint(t, e / H, e % H, B, H, dq[e], rz, k_rz, da, dU);  // B3, B4
}
