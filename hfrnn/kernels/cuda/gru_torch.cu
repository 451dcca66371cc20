// One step of gru-torch: the equations of kernels/gru_torch.py, under its numbers. The blocks r, z and n of a unit are
// H columns apart.

#include "common.cuh"

// Before the step, row t of k holds s_t, which the coefficients replace; where nothing is recorded, k has one row.
extern "C" __global__ void gru_torch_forward(
    Index t, Index B, Index H, Index recorded, const real* U, const real* b_hn, real* hs, real* k, real* rz)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    const real* U_t = U + (t * B + b) * 3 * H + j;
    real *s = k + ((recorded ? t : 0) * B + b) * 3 * H + j, *gates = rz + (t * B + b) * 2 * H + j;
    const real r = sigma(U_t[0] + s[0]), z = sigma(U_t[H] + s[H]), m = s[2 * H] + b_hn[j];  // F1, F2, F3
    const real n = tanh_of(U_t[2 * H] + r * m), h = hs[now];  // F4
    hs[now + B * H] = (h - n) * z + n;  // F5
    if (!recorded) return;
    s[0] = m * r * (real(1) - r);  // L1
    s[H] = (h - n) * z * (real(1) - z);  // L2
    s[2 * H] = (real(1) - z) * (real(1) - n * n);  // L3
    gates[0] = r;
    gates[H] = z;
}

// Rhs (K+1, B, H) starts with the tangent before the segment.
extern "C" __global__ void gru_torch_rforward(
    Index t, Index B, Index H, const real* RU, const real* Rs, const real* recurrent, const real* Rb_hn,
    const real* rz, const real* k, real* Rhs)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, at = (t * B + b) * 3 * H + j, row = b * 3 * H + j, now = t * B * H + e;
    const real* gates = rz + (t * B + b) * 2 * H + j;
    const real Ra_r = RU[at] + Rs[at] + recurrent[row];  // R1, R2
    const real Ra_z = RU[at + H] + Rs[at + H] + recurrent[row + H];  // R1, R2
    const real Rm = Rs[at + 2 * H] + recurrent[row + 2 * H] + Rb_hn[j];  // R3
    const real Ra_n = RU[at + 2 * H] + k[at] * Ra_r + gates[0] * Rm;  // R4
    Rhs[now + B * H] = k[at + H] * Ra_z + k[at + 2 * H] * Ra_n + gates[H] * Rhs[now];  // R5
}

// The adjoint of h_t is dh + recurrent (ds_{t+1} @ W_h.T) + dhs_t; the step leaves z * dh_t in dh.
extern "C" __global__ void gru_torch_backward(
    Index t, Index B, Index H, const real* dhs, const real* recurrent, const real* rz, const real* k, real* dh,
    real* dU, real* ds)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, at = (t * B + b) * 3 * H + j;
    const real* gates = rz + (t * B + b) * 2 * H + j;
    const real dh_t = dh[e] + recurrent[e] + dhs[t * B * H + e];
    const real da_z = dh_t * k[at + H], da_n = dh_t * k[at + 2 * H], da_r = da_n * k[at];  // B1, B2
    dU[at] = ds[at] = da_r;  // B3
    dU[at + H] = ds[at + H] = da_z;  // B3
    dU[at + 2 * H] = da_n;
    ds[at + 2 * H] = da_n * gates[0];  // B2
    dh[e] = dh_t * gates[H];  // B4
}
