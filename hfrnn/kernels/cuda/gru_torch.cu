// One step of gru-torch: the equations of kernels/gru_torch.py, under its numbers.

#include "common.cuh"
#include "gru_torch.cuh"

// Before the step, row t of k holds s_t, which the coefficients replace; where nothing is recorded, k has one row.
extern "C" __global__ void gru_torch_forward(
    Index t, Index B, Index H, Index recorded, const real* U, const real* b_hn, real* hs, real* k, real* rz)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H;
    const real *row = k + ((recorded ? t : 0) * B + b) * 3 * H + j, s[3] = {row[0], row[H], row[2 * H]};  // F1
    gru_torch_unit(t, b, j, B, H, recorded, s, U, b_hn, hs, k, rz);  // F2-F5, L1-L3
}

extern "C" __global__ void gru_torch_rforward(
    Index t, Index B, Index H, const real* RU, const real* Rs, const real* recurrent, const real* Rb_hn,
    const real* rz, const real* k, real* Rhs)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H;
    const real *row = recurrent + b * 3 * H + j, of_unit[3] = {row[0], row[H], row[2 * H]};
    gru_torch_tangent(t, b, j, B, H, of_unit, RU, Rs, Rb_hn, rz, k, Rhs);  // R1-R5
}

// The adjoint of h_t is dh + recurrent (ds_{t+1} @ W_h.T) + dhs_t; the step leaves z * dh_t in dh.
extern "C" __global__ void gru_torch_backward(
    Index t, Index B, Index H, const real* dhs, const real* recurrent, const real* rz, const real* k, real* dh,
    real* dU, real* ds)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H;
    dh[e] = gru_torch_adjoint(t, b, j, B, H, dh[e] + recurrent[e] + dhs[t * B * H + e], rz, k, dU, ds);  // B1-B4
}
