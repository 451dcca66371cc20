// All steps of a segment of lstm and lstm-krause: the equations of kernels/lstm.py, under its numbers, and those of
// kernels/cells.py. x holds the states, or the adjoints of the gates, of two steps. The arguments are those of
// cells.cu.

#include "common.cuh"
#include "segment.cuh"
#include "cells.cuh"

// c (B, H) changes from the cell state before the segment to that after it.
extern "C" __global__ void segment_lstm_forward(
    Index K, Index B, Index H, Index krause, Index recorded, const real* U, const real* W_h, real* c, real* hs, real* k,
    real* f_kept, real* k_c)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + 4 * H * H, state[SEQUENCES];
    const Index j = threadIdx.x;
    copy_in(W, W_h, 4 * H * H);
    if (j < H) EACH_SEQUENCE {
        x[j * SEQUENCES + s] = given_state(hs, s, B, H, j);
        state[s] = given_state(c, s, B, H, j);
    }
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        real sum[4][SEQUENCES], *before = x + (t % 2) * H * SEQUENCES, *after = x + ((t + 1) % 2) * H * SEQUENCES;
        if (j < H) {
            multiply_gates(before, W, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index row = t * B + sequence(s), now = row * H + j;
                real a[4], f, slope;
                for (int g = 0; g < 4; g++) a[g] = sum[g][s] + U[(row * 4 + g) * H + j];  // F1
                after[j * SEQUENCES + s] = hs[now + B * H] = cell(krause, a, state + s, &f, &slope);  // F2
                if (!recorded) continue;
                for (int g = 0; g < 4; g++) k[(row * 4 + g) * H + j] = a[g];
                f_kept[now] = f;
                k_c[now] = slope;
            }
        }
        __syncthreads();
    }
    if (j < H) EACH_SEQUENCE if (sequence(s) < B) c[sequence(s) * H + j] = state[s];
}

// Rh (B, H) is the tangent before the segment; Rc (B, H) changes to that after it.
extern "C" __global__ void segment_lstm_rforward(
    Index K, Index B, Index H, const real* RU, const real* W_h, const real* Rh, const real* Ra, const real* k,
    const real* f, const real* k_c, real* Rc, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + 4 * H * H, state[SEQUENCES];
    const Index j = threadIdx.x;
    copy_in(W, W_h, 4 * H * H);
    if (j < H) EACH_SEQUENCE {
        x[j * SEQUENCES + s] = given_state(Rh, s, B, H, j);
        state[s] = given_state(Rc, s, B, H, j);
    }
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        real sum[4][SEQUENCES], *before = x + (t % 2) * H * SEQUENCES, *after = x + ((t + 1) % 2) * H * SEQUENCES;
        if (j < H) {
            multiply_gates(before, W, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index row = t * B + sequence(s), now = row * H + j, at = row * 4 * H + j;
                real R[4];
                for (int g = 0; g < 4; g++) R[g] = Ra[at + g * H] + sum[g][s] + RU[at + g * H];  // R1
                after[j * SEQUENCES + s] = Rhs[now] = cell_tangent(k + at, R, f[now], k_c[now], H, state + s);  // R2
            }
        }
        __syncthreads();
    }
    if (j < H) EACH_SEQUENCE if (sequence(s) < B) Rc[sequence(s) * H + j] = state[s];
}

// dh and dc (B, H) change from the adjoints after the segment to those before it.
extern "C" __global__ void segment_lstm_backward(
    Index K, Index B, Index H, const real* dhs, const real* W_h_T, const real* k, const real* f, const real* k_c,
    real* dh, real* dc, real* dU)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + 4 * H * H, sum[SEQUENCES], state[SEQUENCES];
    const Index j = threadIdx.x;
    copy_in(W, W_h_T, 4 * H * H);
    if (j < H) EACH_SEQUENCE {
        sum[s] = given_state(dh, s, B, H, j);
        state[s] = given_state(dc, s, B, H, j);
    }
    for (Index t = K - 1; t >= 0; t--) {
        real* da = x + (t % 2) * 4 * H * SEQUENCES;
        if (j < H) EACH_SEQUENCE {
            if (sequence(s) >= B) continue;
            const Index row = t * B + sequence(s), now = row * H + j, at = row * 4 * H + j;
            real d[4];
            cell_adjoint(k + at, sum[s] + dhs[now], f[now], k_c[now], H, state + s, d);  // B1
            for (int g = 0; g < 4; g++) dU[at + g * H] = da[(g * H + j) * SEQUENCES + s] = d[g];
        }
        __syncthreads();
        if (j < H) multiply(da, W, 4 * H, H, j, sum);  // B2
    }
    if (j < H) EACH_SEQUENCE {
        if (sequence(s) >= B) continue;
        dh[sequence(s) * H + j] = sum[s];
        dc[sequence(s) * H + j] = state[s];
    }
}
