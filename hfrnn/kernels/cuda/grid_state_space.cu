// All steps of a segment of state-space in a cooperative launch: the equations of kernels/state_space.py, under its
// numbers. There are n states and m units, and a block computes a part of both. U, RU and dU have n + m columns. A step
// has two barriers.

#include "common.cuh"
#include "grid.cuh"

// The columns of [W_1, A] that belong to the units and to the states of this block.
__device__ inline real* keep_both(
    Grid& grid, const real* A, const real* W_1, int n, int m, const Units& states, const Units& units)
{
    const int columns = whole_quads(units.most + states.most);
    real* W = give_columns(grid, n, columns);
    keep_columns(W, columns, 0, W_1, n, m, 0, units);
    keep_columns(W, columns, units.most, A, n, n, 0, states);
    return W;
}

// Where nothing is recorded, gs and k have one row. hs (K+1, B, n) starts with the state before the segment.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_state_space_forward(
    Index parts, unsigned* barriers, Index K, Index B, Index n, Index m, Index kind, Index recorded, const real* U,
    const real* A, const real* W_1, const real* W_3, real* hs, real* gs, real* k)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units states = units_of(grid, n), units = units_of(grid, m);
    const real *W = keep_both(grid, A, W_1, n, m, states, units), *V = keep_gates(grid, W_3, m, 1, n, states);
    const int many = whole_quads(units.most + states.most), few = whole_quads(states.most);
    for (Index t = 0; t < K; t++) {
        real* g_t = gs + (recorded ? t * B * m : 0);
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, hs + t * B * n, n, n, W, many);
            EACH_UNIT(grid, tile, units) {
                const real a = sum_of(grid, many, s, i) + U[(t * B + b) * (n + m) + n + j];  // F1
                const real g = g_t[b * m + j] = activate(kind, a);  // F2
                if (recorded) k[(t * B + b) * m + j] = slope_of(kind, g);  // L1
            }
            EACH_UNIT(grid, tile, states) {
                const real linear = sum_of(grid, many, s, units.most + i);
                hs[((t + 1) * B + b) * n + j] = linear + U[(t * B + b) * (n + m) + j];  // F3
            }
            arrive(grid, tile);
        }
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, g_t, m, m, V, few);
            EACH_UNIT(grid, tile, states) hs[((t + 1) * B + b) * n + j] += sum_of(grid, few, s, i);  // F3
            arrive(grid, tile);
        }
    }
}

// Ra (K, B, m) changes from the products of the states with R(W_1) to Rg. more (K, B, n) holds the products of the
// states with R(A) and of the units with R(W_3).
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_state_space_rforward(
    Index parts, unsigned* barriers, Index K, Index B, Index n, Index m, const real* RU, const real* A,
    const real* W_1, const real* W_3, const real* k, const real* more, real* Ra, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units states = units_of(grid, n), units = units_of(grid, m);
    const real *W = keep_both(grid, A, W_1, n, m, states, units), *V = keep_gates(grid, W_3, m, 1, n, states);
    const int many = whole_quads(units.most + states.most), few = whole_quads(states.most);
    for (Index t = 0; t < K; t++) {
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, Rhs + t * B * n, n, n, W, many);
            EACH_UNIT(grid, tile, units) {
                const Index now = (t * B + b) * m + j;
                const real R = Ra[now] + sum_of(grid, many, s, i) + RU[(t * B + b) * (n + m) + n + j];  // R1
                Ra[now] = k[now] * R;  // R2
            }
            EACH_UNIT(grid, tile, states) {
                const Index now = (t * B + b) * n + j;
                const real linear = sum_of(grid, many, s, units.most + i) + RU[(t * B + b) * (n + m) + j];  // R3
                Rhs[now + B * n] = linear + more[now];  // R3
            }
            arrive(grid, tile);
        }
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, Ra + t * B * m, m, m, V, few);
            EACH_UNIT(grid, tile, states) Rhs[((t + 1) * B + b) * n + j] += sum_of(grid, few, s, i);  // R3
            arrive(grid, tile);
        }
    }
}

// dh (B, n) changes from the adjoint after the segment to that before it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_state_space_backward(
    Index parts, unsigned* barriers, Index K, Index B, Index n, Index m, const real* dhs, const real* A_T,
    const real* W_1_T, const real* W_3_T, const real* k, real* dh, real* ds, real* das, real* dU)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units states = units_of(grid, n), units = units_of(grid, m);
    const int of_states = whole_quads(states.most), of_units = whole_quads(units.most);
    real* W = give_columns(grid, n + m, of_states);
    keep_columns(W, of_states, 0, A_T, n, n, 0, states);
    keep_columns(W + n * of_states, of_states, 0, W_1_T, m, n, 0, states);
    const real* V = keep_gates(grid, W_3_T, n, 1, m, units);
    for (Index t = K - 1; t >= -1; t--) {
        const bool last = t == K - 1;
        EACH_TILE(grid) {
            wait(grid, tile);
            if (!last) multiply_tile(grid, tile, dU + (t + 1) * B * (n + m), n + m, n + m, W, of_states);
            EACH_UNIT(grid, tile, states) {
                const real dh_t = last ? dh[b * n + j] : sum_of(grid, of_states, s, i);  // B3
                const Index now = (t * B + b) * n + j;
                if (t < 0) dh[b * n + j] = dh_t;
                else dU[(t * B + b) * (n + m) + j] = ds[now] = dh_t + dhs[now];  // B1
            }
            arrive(grid, tile);
        }
        if (t >= 0) EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, ds + t * B * n, n, n, V, of_units);
            EACH_UNIT(grid, tile, units) {
                const Index now = (t * B + b) * m + j;
                dU[(t * B + b) * (n + m) + n + j] = das[now] = sum_of(grid, of_units, s, i) * k[now];  // B2
            }
            arrive(grid, tile);
        }
    }
}
