// One step of a plain unit, for rnn, mrnn and scrn: the equations of kernels/rnn.py, under its numbers.
// U, RU and dU have S columns, of which the first H are used; dhs has D columns, of which the first H are used.

#include "common.cuh"

extern "C" __global__ void rnn_forward(
    Index t, Index B, Index H, Index S, Index kind, Index recorded, const real* U, real* hs, real* slope)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H;
    const real h = activate(kind, hs[(t + 1) * B * H + e] + U[(t * B + b) * S + j]);  // F1, F2
    hs[(t + 1) * B * H + e] = h;
    if (recorded) slope[t * B * H + e] = slope_of(kind, h);  // L1
}

extern "C" __global__ void rnn_rforward(
    Index t, Index B, Index H, Index S, const real* RU, const real* recurrent, const real* slope, const real* Ra,
    real* Rhs)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    const real Ra_t = Ra[now] + recurrent[e] + RU[(t * B + b) * S + j];  // R1
    Rhs[now] = slope[now] * Ra_t;  // R2
}

extern "C" __global__ void rnn_backward(
    Index t, Index B, Index H, Index S, Index D, const real* dhs, const real* slope, const real* dh, real* da,
    real* dU)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    const real da_t = (dh[e] + dhs[(t * B + b) * D + j]) * slope[now];  // B1
    da[now] = da_t;
    dU[(t * B + b) * S + j] = da_t;  // B1
}
