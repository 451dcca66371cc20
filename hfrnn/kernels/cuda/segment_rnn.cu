// All steps of a segment of rnn: the equations of kernels/rnn.py, under its numbers. x holds the states of two steps.

#include "common.cuh"
#include "segment.cuh"

extern "C" __global__ void segment_rnn_forward(
    Index K, Index B, Index H, Index kind, Index recorded, const real* U, const real* W_h, real* hs, real* slope)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H;
    const Index j = threadIdx.x;
    copy_in(W, W_h, H * H);
    if (j < H) EACH_SEQUENCE x[j * SEQUENCES + s] = given_state(hs, s, B, H, j);
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        real sum[SEQUENCES], *before = x + (t % 2) * H * SEQUENCES, *after = x + ((t + 1) % 2) * H * SEQUENCES;
        if (j < H) {
            multiply(before, W, H, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index now = (t * B + sequence(s)) * H + j;
                const real h = activate(kind, sum[s] + U[now]);  // F1, F2
                after[j * SEQUENCES + s] = h;
                hs[now + B * H] = h;
                if (recorded) slope[now] = slope_of(kind, h);  // L1
            }
        }
        __syncthreads();
    }
}

// Rh (B, H) is the tangent before the segment.
extern "C" __global__ void segment_rnn_rforward(
    Index K, Index B, Index H, const real* RU, const real* W_h, const real* Rh, const real* slope, const real* Ra,
    real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H;
    const Index j = threadIdx.x;
    copy_in(W, W_h, H * H);
    if (j < H) EACH_SEQUENCE x[j * SEQUENCES + s] = given_state(Rh, s, B, H, j);
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        real sum[SEQUENCES], *before = x + (t % 2) * H * SEQUENCES, *after = x + ((t + 1) % 2) * H * SEQUENCES;
        if (j < H) {
            multiply(before, W, H, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index now = (t * B + sequence(s)) * H + j;
                const real R = slope[now] * (Ra[now] + sum[s] + RU[now]);  // R1, R2
                after[j * SEQUENCES + s] = R;
                Rhs[now] = R;
            }
        }
        __syncthreads();
    }
}

// dh (B, H) changes from the adjoint after the segment to that before it.
extern "C" __global__ void segment_rnn_backward(
    Index K, Index B, Index H, const real* dhs, const real* W_h_T, const real* slope, real* dh, real* dU)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H, sum[SEQUENCES];
    const Index j = threadIdx.x;
    copy_in(W, W_h_T, H * H);
    if (j < H) EACH_SEQUENCE sum[s] = given_state(dh, s, B, H, j);
    for (Index t = K - 1; t >= 0; t--) {
        real* da = x + (t % 2) * H * SEQUENCES;
        if (j < H) EACH_SEQUENCE {
            if (sequence(s) >= B) continue;
            const Index now = (t * B + sequence(s)) * H + j;
            dU[now] = da[j * SEQUENCES + s] = (sum[s] + dhs[now]) * slope[now];  // B1
        }
        __syncthreads();
        if (j < H) multiply(da, W, H, H, j, sum);  // B2
    }
    if (j < H) EACH_SEQUENCE if (sequence(s) < B) dh[sequence(s) * H + j] = sum[s];
}
