// Common to the kernels that run all K steps of a segment in one launch, for small networks. A block computes SEQUENCES
// sequences; its thread j computes unit j of each of them, and keeps in registers what only this unit needs. The
// recurrent matrices lie in shared memory for the whole segment, and so does what one unit needs from the others:
// x (rows, SEQUENCES). There is no synchronisation between blocks.

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

#define EACH_SEQUENCE for (int s = 0; s < SEQUENCES; s++)

// The sequence s of this block; the last block may have too many.
__device__ inline Index sequence(int s) { return (Index)blockIdx.x * SEQUENCES + s; }

// Unit j of sequence s in a state or an adjoint (B, H); 0 where the block has no such sequence.
__device__ inline real given_state(const real* state, int s, Index B, Index H, Index j)
{
    return sequence(s) < B ? state[sequence(s) * H + j] : real(0);
}

__device__ inline void copy_in(real* to, const real* from, Index count)
{
    for (Index n = threadIdx.x; n < count; n += blockDim.x) to[n] = from[n];
}

// sum[s] <- sum_i x[i, s] * W[i, column], in the order of i.
__device__ inline void multiply(
    const real* x, const real* W, Index rows, Index columns, Index column, real sum[SEQUENCES])
{
    EACH_SEQUENCE sum[s] = 0;
    for (Index i = 0; i < rows; i++) {
        const real w = W[i * columns + column];
        EACH_SEQUENCE sum[s] += x[i * SEQUENCES + s] * w;
    }
}

// sum[g][s] <- sum_i x[i, s] * W[i, g*H + unit] for the four gates g.
__device__ inline void multiply_gates(const real* x, const real* W, Index H, Index unit, real sum[4][SEQUENCES])
{
    for (int g = 0; g < 4; g++) EACH_SEQUENCE sum[g][s] = 0;
    for (Index i = 0; i < H; i++)
        for (int g = 0; g < 4; g++) {
            const real w = W[(i * 4 + g) * H + unit];
            EACH_SEQUENCE sum[g][s] += x[i * SEQUENCES + s] * w;
        }
}
