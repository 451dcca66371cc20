// All steps of a segment of rate: the equations of kernels/rate.py, under its numbers. x holds the rates of two steps;
// the arguments are those of rate.cu, and rate_begin has run.

#include "common.cuh"
#include "segment.cuh"
#include "rate.cuh"

extern "C" __global__ void segment_rate_forward(
    Index K, Index B, Index H, Index kind, Index recorded, Index learned, const real* U, const real* W_h,
    const real* leak, real* x_kept, real* e_kept, real* rs, real* k)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H, state[SEQUENCES];
    const Index j = threadIdx.x;
    const real a = j < H ? leak[j] : real(0);
    copy_in(W, W_h, H * H);
    if (j < H) EACH_SEQUENCE {
        x[j * SEQUENCES + s] = given_state(rs, s, B, H, j);
        state[s] = given_state(x_kept, s, B, H, j);
    }
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        real sum[SEQUENCES], *before = x + (t % 2) * H * SEQUENCES, *after = x + ((t + 1) % 2) * H * SEQUENCES;
        if (j < H) {
            multiply(before, W, H, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index now = (t * B + sequence(s)) * H + j, next = now + B * H;
                real k_t, e_t;
                after[j * SEQUENCES + s] = rs[next] =
                    rate_unit(kind, sum[s] + U[now], a, state + s, &k_t, &e_t);  // F1-F3
                if (recorded) k[next] = k_t;  // L1
                if (recorded && learned) e_kept[now] = e_t;  // L2
            }
        }
        __syncthreads();
    }
    if (j < H) EACH_SEQUENCE if (sequence(s) < B) x_kept[sequence(s) * H + j] = state[s];
}

extern "C" __global__ void segment_rate_rforward(
    Index K, Index B, Index H, Index learned, const real* RU, const real* W_h, const real* Rn, const real* leak,
    const real* k, const real* e_kept, const real* Rq, real* Rx, real* Rrs)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H, state[SEQUENCES];
    const Index j = threadIdx.x;
    const real a = j < H ? leak[j] : real(0), Rq_j = j < H && learned ? Rq[j] : real(0);
    copy_in(W, W_h, H * H);
    if (j < H) EACH_SEQUENCE {
        x[j * SEQUENCES + s] = given_state(Rrs, s, B, H, j);
        state[s] = given_state(Rx, s, B, H, j);
    }
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        real sum[SEQUENCES], *before = x + (t % 2) * H * SEQUENCES, *after = x + ((t + 1) % 2) * H * SEQUENCES;
        if (j < H) {
            multiply(before, W, H, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index now = (t * B + sequence(s)) * H + j, next = now + B * H;
                const real R = Rn[now] + sum[s] + RU[now];  // R1
                after[j * SEQUENCES + s] = Rrs[next] =
                    rate_tangent(R, a, k[next], e_kept[now], Rq_j, state + s);  // R2, R3
            }
        }
        __syncthreads();
    }
    if (j < H) EACH_SEQUENCE if (sequence(s) < B) Rx[sequence(s) * H + j] = state[s];
}

// dx (B, H) changes from the adjoint after the segment to that before it, without the part of dr, which the call
// leaves.
extern "C" __global__ void segment_rate_backward(
    Index K, Index B, Index H, Index learned, const real* dhs, const real* W_h_T, const real* leak, const real* k,
    const real* e_kept, real* dx, real* dr, real* dU, real* de)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H, sum[SEQUENCES], carried[SEQUENCES];
    const Index j = threadIdx.x;
    const real a = j < H ? leak[j] : real(0);
    copy_in(W, W_h_T, H * H);
    if (j < H) EACH_SEQUENCE {
        sum[s] = 0;
        carried[s] = given_state(dx, s, B, H, j);
    }
    for (Index t = K - 1; t >= 0; t--) {
        real* dn = x + (t % 2) * H * SEQUENCES;
        if (j < H) EACH_SEQUENCE {
            if (sequence(s) >= B) continue;
            const Index now = (t * B + sequence(s)) * H + j;
            const real dx_t = carried[s] + (sum[s] + dhs[now]) * k[now + B * H];  // B1
            if (learned) de[now] = dx_t * e_kept[now];  // B5
            dU[now] = dn[j * SEQUENCES + s] = dx_t * a;  // B2
            carried[s] = dx_t * (real(1) - a);  // B4
        }
        __syncthreads();
        if (j < H) multiply(dn, W, H, H, j, sum);  // B3
    }
    if (j < H) EACH_SEQUENCE {
        if (sequence(s) >= B) continue;
        dx[sequence(s) * H + j] = carried[s];
        dr[sequence(s) * H + j] = sum[s];
    }
}
