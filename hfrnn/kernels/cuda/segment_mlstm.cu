// All steps of a segment of mlstm and mlstm-standard: the equations of kernels/mlstm.py, under its numbers, and those
// of kernels/cells.py. U, RU and dU have 5H columns, of which the last H belong to m. Thread j also computes unit j of
// m.

#include "common.cuh"
#include "segment.cuh"
#include "cells.cuh"

// c (B, H) changes from the cell state before the segment to that after it.
extern "C" __global__ void segment_mlstm_forward(
    Index K, Index B, Index H, Index krause, Index recorded, const real* U, const real* W_hm, const real* W_m, real* c,
    real* hs, real* k, real* f_kept, real* k_c, real* U_m, real* xi, real* m)
{
    DYNAMIC_SHARED(real, shared);
    real *V = shared, *W = V + H * H, *h = W + 4 * H * H, *x = h + H * SEQUENCES, state[SEQUENCES];
    const Index j = threadIdx.x;
    copy_in(V, W_hm, H * H);
    copy_in(W, W_m, 4 * H * H);
    if (j < H) EACH_SEQUENCE {
        h[j * SEQUENCES + s] = given_state(hs, s, B, H, j);
        state[s] = given_state(c, s, B, H, j);
    }
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        if (j < H) {
            real factor[SEQUENCES];
            multiply(h, V, H, H, j, factor);  // F1
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index row = t * B + sequence(s), now = row * H + j;
                const real u = U[(row * 5 + 4) * H + j];
                U_m[now] = u;
                xi[now] = factor[s];
                x[j * SEQUENCES + s] = m[now] = u * factor[s];  // F2
            }
        }
        __syncthreads();
        if (j < H) {
            real sum[4][SEQUENCES];
            multiply_gates(x, W, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index row = t * B + sequence(s), now = row * H + j;
                real a[4], f, slope;
                for (int g = 0; g < 4; g++) a[g] = sum[g][s] + U[(row * 5 + g) * H + j];  // F3
                h[j * SEQUENCES + s] = hs[now + B * H] = cell(krause, a, state + s, &f, &slope);  // F4
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
extern "C" __global__ void segment_mlstm_rforward(
    Index K, Index B, Index H, const real* RU, const real* W_hm, const real* W_m, const real* Rh, const real* Rxi,
    const real* Ra, const real* k, const real* f, const real* k_c, const real* U_m, const real* xi, real* Rc, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    real *V = shared, *W = V + H * H, *h = W + 4 * H * H, *x = h + H * SEQUENCES, state[SEQUENCES];
    const Index j = threadIdx.x;
    copy_in(V, W_hm, H * H);
    copy_in(W, W_m, 4 * H * H);
    if (j < H) EACH_SEQUENCE {
        h[j * SEQUENCES + s] = given_state(Rh, s, B, H, j);
        state[s] = given_state(Rc, s, B, H, j);
    }
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        if (j < H) {
            real factor[SEQUENCES];
            multiply(h, V, H, H, j, factor);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index row = t * B + sequence(s), now = row * H + j;
                const real R = Rxi[now] + factor[s];  // R1
                x[j * SEQUENCES + s] = RU[(row * 5 + 4) * H + j] * xi[now] + U_m[now] * R;  // R2
            }
        }
        __syncthreads();
        if (j < H) {
            real sum[4][SEQUENCES];
            multiply_gates(x, W, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index row = t * B + sequence(s), now = row * H + j, at = row * 4 * H + j;
                real R[4];
                for (int g = 0; g < 4; g++) R[g] = Ra[at + g * H] + sum[g][s] + RU[(row * 5 + g) * H + j];  // R3
                h[j * SEQUENCES + s] = Rhs[now] = cell_tangent(k + at, R, f[now], k_c[now], H, state + s);  // R4
            }
        }
        __syncthreads();
    }
    if (j < H) EACH_SEQUENCE if (sequence(s) < B) Rc[sequence(s) * H + j] = state[s];
}

// dh and dc (B, H) change from the adjoints after the segment to those before it.
extern "C" __global__ void segment_mlstm_backward(
    Index K, Index B, Index H, const real* dhs, const real* W_hm_T, const real* W_m_T, const real* k, const real* f,
    const real* k_c, const real* U_m, const real* xi, real* dh, real* dc, real* da, real* dxi, real* dU)
{
    DYNAMIC_SHARED(real, shared);
    real *V = shared, *W = V + H * H, *x = W + 4 * H * H, *y = x + 4 * H * SEQUENCES, sum[SEQUENCES], state[SEQUENCES];
    const Index j = threadIdx.x;
    copy_in(V, W_hm_T, H * H);
    copy_in(W, W_m_T, 4 * H * H);
    if (j < H) EACH_SEQUENCE {
        sum[s] = given_state(dh, s, B, H, j);
        state[s] = given_state(dc, s, B, H, j);
    }
    for (Index t = K - 1; t >= 0; t--) {
        if (j < H) EACH_SEQUENCE {
            if (sequence(s) >= B) continue;
            const Index row = t * B + sequence(s), now = row * H + j, at = row * 4 * H + j;
            real d[4];
            cell_adjoint(k + at, sum[s] + dhs[now], f[now], k_c[now], H, state + s, d);  // B1
            for (int g = 0; g < 4; g++)
                dU[(row * 5 + g) * H + j] = da[at + g * H] = x[(g * H + j) * SEQUENCES + s] = d[g];
        }
        __syncthreads();
        if (j < H) {
            multiply(x, W, 4 * H, H, j, sum);  // B2
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index row = t * B + sequence(s), now = row * H + j;
                y[j * SEQUENCES + s] = dxi[now] = sum[s] * U_m[now];  // B3
                dU[(row * 5 + 4) * H + j] = sum[s] * xi[now];  // B3
            }
        }
        __syncthreads();
        if (j < H) multiply(y, V, H, H, j, sum);  // B4
    }
    if (j < H) EACH_SEQUENCE {
        if (sequence(s) >= B) continue;
        dh[sequence(s) * H + j] = sum[s];
        dc[sequence(s) * H + j] = state[s];
    }
}
