// One step of coupled-oscillator: the equations of kernels/coupled_oscillator.py, under its numbers. pull is dt*gamma,
// and kept is 1 - dt*epsilon; they are computed in double precision.

#include "common.cuh"

// of_y and of_z (B, H) are the products with W_h and W_z; row t of ys and zs (K+1, B, H) is that of step t-1.
extern "C" __global__ void oscillator_forward(
    Index t, Index B, Index H, Index recorded, double dt, double pull, double kept, const real* U, const real* of_y,
    const real* of_z, real* ys, real* zs, real* k)
{
    EACH(e, B * H);
    const Index now = t * B * H + e, after = now + B * H;
    const real g = tanh_of(of_y[e] + of_z[e] + U[now]);  // F1, F2
    const real z = zs[now] * real(kept) + g * real(dt) - ys[now] * real(pull);  // F2
    zs[after] = z;
    ys[after] = z * real(dt) + ys[now];  // F3
    if (recorded) k[now] = (real(1) - g * g) * real(dt);  // L1
}

// Rys (K+1, B, H) starts with the tangent before the segment; Rz (B, H) changes from that of step t-1 to step t.
extern "C" __global__ void oscillator_rforward(
    Index t, Index B, Index H, double dt, double pull, double kept, const real* RU, const real* Ra, const real* of_y,
    const real* of_z, const real* k, real* Rys, real* Rz)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    const real R = Ra[now] + RU[now] + of_y[e] + of_z[e];  // R1
    const real z = Rz[e] * real(kept) + R * k[now] - Rys[now] * real(pull);  // R2
    Rz[e] = z;
    Rys[now + B * H] = Rys[now] + z * real(dt);  // R3
}

// of_y and of_z (B, H) are the products of da_{t+1}; dy and dz change from those of step t+1 to those of step t, without
// the products of da_t.
extern "C" __global__ void oscillator_backward(
    Index t, Index B, Index H, double dt, double pull, double kept, const real* dhs, const real* of_y,
    const real* of_z, const real* k, real* dy, real* dz, real* dU)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    const real y = dy[e] + of_y[e] + dhs[now];  // B3
    const real z = dz[e] + of_z[e] + y * real(dt);  // B4, B1
    dU[now] = z * k[now];  // B2
    dy[e] = y - z * real(pull);  // B3
    dz[e] = z * real(kept);  // B4
}
