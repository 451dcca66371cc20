// All steps of a segment of rnn in a cooperative launch: the equations of kernels/rnn.py, under its numbers.

#include "common.cuh"
#include "grid.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_rnn_forward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index kind, Index recorded, const real* U,
    const real* W_h, real* hs, real* slope)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, hs + t * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index now = (t * B + b) * H + j;
            const real h = activate(kind, sum_of(grid, columns, s, i) + U[now]);  // F1, F2
            hs[now + B * H] = h;
            if (recorded) slope[now] = slope_of(kind, h);  // L1
        }
        arrive(grid, tile);
    }
}

// Rh (B, H) is the tangent before the segment.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_rnn_rforward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* RU, const real* W_h, const real* Rh,
    const real* slope, const real* Ra, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, t ? Rhs + (t - 1) * B * H : Rh, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index now = (t * B + b) * H + j;
            Rhs[now] = slope[now] * (Ra[now] + sum_of(grid, columns, s, i) + RU[now]);  // R1, R2
        }
        arrive(grid, tile);
    }
}

// dh (B, H) changes from the adjoint after the segment to that before it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_rnn_backward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* dhs, const real* W_h_T, const real* slope,
    real* dh, real* dU)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h_T, H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = K - 1; t >= -1; t--) EACH_TILE(grid) {
        const bool last = t == K - 1;
        wait(grid, tile);
        if (!last) multiply_tile(grid, tile, dU + (t + 1) * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index at = b * H + j, now = t * B * H + at;
            const real dh_t = last ? dh[at] : sum_of(grid, columns, s, i);  // B2
            if (t >= 0) dU[now] = (dh_t + dhs[now]) * slope[now];  // B1
            else dh[at] = dh_t;
        }
        arrive(grid, tile);
    }
}
