// One step of clockwork: the equations of kernels/clockwork.py, under its numbers. period (H,) holds the period of each
// unit; time is t + start. A resting unit keeps its state.

#include "common.cuh"

__device__ inline bool is_active(const real* period, Index j, Index time)
{
    return time % (Index)period[j] == 0;
}

// Before the step, a (B, H) holds h_{t-1} @ W_h.
extern "C" __global__ void clockwork_forward(
    Index t, Index B, Index H, Index start, Index recorded, const real* period, const real* U, const real* a, real* hs,
    real* slope)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    const real h = is_active(period, e % H, start + t) ? tanh_of(a[e] + U[now]) : hs[now];  // F1, F2, F3
    hs[now + B * H] = h;
    if (recorded) slope[now] = real(1) - h * h;  // L1
}

// Rhs (K+1, B, H) starts with the tangent before the segment.
extern "C" __global__ void clockwork_rforward(
    Index t, Index B, Index H, Index start, const real* period, const real* RU, const real* Ra, const real* recurrent,
    const real* slope, real* Rhs)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    const real Ra_t = Ra[now] + recurrent[e] + RU[now];  // R1
    Rhs[now + B * H] = is_active(period, e % H, start + t) ? slope[now] * Ra_t : Rhs[now];  // R2, R3
}

// The adjoint of h_t is dh + recurrent (da_{t+1} @ W_h.T) + dhs_t; the step leaves that of resting units in dh.
extern "C" __global__ void clockwork_backward(
    Index t, Index B, Index H, Index start, const real* period, const real* dhs, const real* recurrent,
    const real* slope, real* dh, real* dU)
{
    EACH(e, B * H);
    const Index now = t * B * H + e;
    const real dh_t = dh[e] + recurrent[e] + dhs[now];
    const bool active = is_active(period, e % H, start + t);
    dU[now] = active ? dh_t * slope[now] : real(0);  // B1
    dh[e] = active ? real(0) : dh_t;  // B2
}
