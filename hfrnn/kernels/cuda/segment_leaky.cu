// All steps of a segment of leaky: the equations of kernels/leaky.py, under its numbers. x holds the states of two
// steps; the arguments are those of leaky.cu.

#include "common.cuh"
#include "segment.cuh"
#include "leaky.cuh"

extern "C" __global__ void segment_leaky_forward(
    Index K, Index B, Index H, Index kind, Index recorded, Index learned, const real* U, const real* W_h,
    const real* leak, real* hs, real* k, real* e_kept)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H;
    const Index j = threadIdx.x;
    const real a = j < H ? leak[j] : real(0);
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
                real k_t, e_t;
                const real h = leaky_unit(kind, sum[s] + U[now], a, before[j * SEQUENCES + s], &k_t, &e_t);  // F1-F3
                after[j * SEQUENCES + s] = hs[now + B * H] = h;
                if (recorded) k[now] = k_t;  // L1
                if (recorded && learned) e_kept[now] = e_t;  // L2
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void segment_leaky_rforward(
    Index K, Index B, Index H, Index learned, const real* RU, const real* W_h, const real* Ra, const real* leak,
    const real* k, const real* e_kept, const real* Rq, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H;
    const Index j = threadIdx.x;
    const real a = j < H ? leak[j] : real(0), Rq_j = j < H && learned ? Rq[j] : real(0);
    copy_in(W, W_h, H * H);
    if (j < H) EACH_SEQUENCE x[j * SEQUENCES + s] = given_state(Rhs, s, B, H, j);
    __syncthreads();
    for (Index t = 0; t < K; t++) {
        real sum[SEQUENCES], *before = x + (t % 2) * H * SEQUENCES, *after = x + ((t + 1) % 2) * H * SEQUENCES;
        if (j < H) {
            multiply(before, W, H, H, j, sum);
            EACH_SEQUENCE {
                if (sequence(s) >= B) continue;
                const Index now = (t * B + sequence(s)) * H + j;
                const real R = Ra[now] + sum[s] + RU[now], earlier = before[j * SEQUENCES + s];  // R1
                after[j * SEQUENCES + s] = Rhs[now + B * H] =
                    leaky_tangent(R, a, earlier, k[now], e_kept[now], Rq_j);  // R2
            }
        }
        __syncthreads();
    }
}

// dh (B, H) changes from the adjoint after the segment to that before it.
extern "C" __global__ void segment_leaky_backward(
    Index K, Index B, Index H, Index learned, const real* dhs, const real* W_h_T, const real* leak, const real* k,
    const real* e_kept, real* dh, real* dU, real* de)
{
    DYNAMIC_SHARED(real, shared);
    real *W = shared, *x = W + H * H, sum[SEQUENCES], carried[SEQUENCES];
    const Index j = threadIdx.x;
    const real kept = j < H ? real(1) - leak[j] : real(0);
    copy_in(W, W_h_T, H * H);
    if (j < H) EACH_SEQUENCE {
        sum[s] = 0;
        carried[s] = given_state(dh, s, B, H, j);
    }
    for (Index t = K - 1; t >= 0; t--) {
        real* da = x + (t % 2) * H * SEQUENCES;
        if (j < H) EACH_SEQUENCE {
            if (sequence(s) >= B) continue;
            const Index now = (t * B + sequence(s)) * H + j;
            const real dh_t = carried[s] + sum[s] + dhs[now];
            dU[now] = da[j * SEQUENCES + s] = dh_t * k[now];  // B1
            if (learned) de[now] = dh_t * e_kept[now];  // B3
            carried[s] = dh_t * kept;  // B2
        }
        __syncthreads();
        if (j < H) multiply(da, W, H, H, j, sum);  // B2
    }
    if (j < H) EACH_SEQUENCE if (sequence(s) < B) dh[sequence(s) * H + j] = carried[s] + sum[s];
}
