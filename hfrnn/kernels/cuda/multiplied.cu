// The multiplicative units m = U_m * xi of mrnn and mlstm, one step: equations F2, R2 and B3 of kernels/mlstm.py and
// kernels/mrnn.py. U, RU and dU have S columns, of which the last H belong to U_m.

#include "common.cuh"

// U_m (K, B, H) receives a copy of its columns of U, for the other two routines.
extern "C" __global__ void multiplied_forward(
    Index t, Index B, Index H, Index S, const real* U, const real* xi, real* U_m, real* m)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    const real u = U[(t * B + b) * S + S - H + j];
    U_m[now] = u;
    m[now] = u * xi[now];  // F2
}

extern "C" __global__ void multiplied_rforward(
    Index t, Index B, Index H, Index S, const real* RU, const real* Rxi, const real* recurrent, const real* U_m,
    const real* xi, real* Rm)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    const real Rxi_t = Rxi[now] + recurrent[e];  // R1
    Rm[e] = RU[(t * B + b) * S + S - H + j] * xi[now] + U_m[now] * Rxi_t;  // R2
}

extern "C" __global__ void multiplied_backward(
    Index t, Index B, Index H, Index S, const real* dm, const real* U_m, const real* xi, real* dxi, real* dU)
{
    EACH(e, B * H);
    const Index b = e / H, j = e % H, now = t * B * H + e;
    dxi[now] = dm[e] * U_m[now];  // B3
    dU[(t * B + b) * S + S - H + j] = dm[e] * xi[now];  // B3
}
