// One step of lstm-1997: the equations of kernels/lstm_1997.py, under its numbers.
//
// The gates i, o and g of a unit are H columns apart. Before a forward step, row t of k holds the recurrent part of
// a_t; the step replaces it by the coefficients. Where nothing is recorded, k has one row, which is not changed.

#include "common.cuh"

extern "C" __global__ void lstm_1997_forward(
    Index t, Index B, Index H, Index recorded, const real* U, real* c, real* hs, real* k, real* k_c)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    const real* U_t = U + (t * B + b) * 3 * H + j;
    real* a = k + ((recorded ? t : 0) * B + b) * 3 * H + j;
    const real i = sigma(a[0] + U_t[0]), o = sigma(a[H] + U_t[H]), g = tanh_of(a[2 * H] + U_t[2 * H]);  // F1, F2, F3
    const real c_t = c[e] + i * g, z = tanh_of(c_t);  // F4
    c[e] = c_t;
    hs[now + B * H] = o * z;  // F5
    if (!recorded) return;
    a[0] = g * i * (real(1) - i);  // L1
    a[H] = z * o * (real(1) - o);  // L2
    a[2 * H] = i * (real(1) - g * g);  // L3
    k_c[now] = o * (real(1) - z * z);  // L4
}

extern "C" __global__ void lstm_1997_rforward(
    Index t, Index B, Index H, const real* RU, const real* Ra, const real* recurrent, const real* k, const real* k_c,
    real* Rc, real* Rhs)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e, at = (t * B + b) * 3 * H + j, row = b * 3 * H + j;
    const real Ri = k[at] * (Ra[at] + recurrent[row] + RU[at]);  // R1
    const real Ro = k[at + H] * (Ra[at + H] + recurrent[row + H] + RU[at + H]);  // R1
    const real Rg = k[at + 2 * H] * (Ra[at + 2 * H] + recurrent[row + 2 * H] + RU[at + 2 * H]);  // R1
    const real R = Rc[e] + Ri + Rg;  // R2
    Rc[e] = R;
    Rhs[now] = Ro + k_c[now] * R;  // R3
}

extern "C" __global__ void lstm_1997_backward(
    Index t, Index B, Index H, const real* dhs, const real* k, const real* k_c, const real* dh, real* dc, real* dU)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e, at = (t * B + b) * 3 * H + j;
    const real dh_t = dh[e] + dhs[now], dc_t = dc[e] + k_c[now] * dh_t;  // B1
    dc[e] = dc_t;
    dU[at] = k[at] * dc_t;  // B2
    dU[at + H] = k[at + H] * dh_t;  // B2
    dU[at + 2 * H] = k[at + 2 * H] * dc_t;  // B2
}
