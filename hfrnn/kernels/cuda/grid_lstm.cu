// All steps of a segment of lstm and lstm-krause in a cooperative launch: the equations of kernels/lstm.py, under its
// numbers, and those of kernels/cells.py. The arguments are those of segment_lstm.cu.

#include "common.cuh"
#include "grid.cuh"
#include "cells.cuh"

// c (B, H) changes from the cell state before the segment to that after it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_lstm_forward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index krause, Index recorded, const real* U,
    const real* W_h, real* c, real* hs, real* k, real* f_kept, real* k_c)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 4, H, units);
    const int columns = whole_quads(4 * units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, hs + t * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index row = t * B + b, now = row * H + j, at = row * 4 * H + j;
            real a[4], f, slope;
            for (int g = 0; g < 4; g++) a[g] = sum_of(grid, columns, s, g * units.most + i) + U[at + g * H];  // F1
            hs[now + B * H] = cell(krause, a, c + b * H + j, &f, &slope);  // F2
            if (!recorded) continue;
            for (int g = 0; g < 4; g++) k[at + g * H] = a[g];
            f_kept[now] = f;
            k_c[now] = slope;
        }
        arrive(grid, tile);
    }
}

// Rh (B, H) is the tangent before the segment; Rc (B, H) changes to that after it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_lstm_rforward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* RU, const real* W_h, const real* Rh,
    const real* Ra, const real* k, const real* f, const real* k_c, real* Rc, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 4, H, units);
    const int columns = whole_quads(4 * units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, t ? Rhs + (t - 1) * B * H : Rh, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index row = t * B + b, now = row * H + j, at = row * 4 * H + j;
            real R[4];
            for (int g = 0; g < 4; g++)
                R[g] = Ra[at + g * H] + sum_of(grid, columns, s, g * units.most + i) + RU[at + g * H];  // R1
            Rhs[now] = cell_tangent(k + at, R, f[now], k_c[now], H, Rc + b * H + j);  // R2
        }
        arrive(grid, tile);
    }
}

// dh and dc (B, H) change from the adjoints after the segment to those before it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_lstm_backward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* dhs, const real* W_h_T, const real* k,
    const real* f, const real* k_c, real* dh, real* dc, real* dU)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h_T, 4 * H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = K - 1; t >= -1; t--) EACH_TILE(grid) {
        const bool last = t == K - 1;
        wait(grid, tile);
        if (!last) multiply_tile(grid, tile, dU + (t + 1) * B * 4 * H, 4 * H, 4 * H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index row = t * B + b, now = row * H + j, at = row * 4 * H + j;
            const real dh_t = last ? dh[b * H + j] : sum_of(grid, columns, s, i);  // B2
            if (t < 0) {
                dh[b * H + j] = dh_t;
                continue;
            }
            real d[4];
            cell_adjoint(k + at, dh_t + dhs[now], f[now], k_c[now], H, dc + b * H + j, d);  // B1
            for (int g = 0; g < 4; g++) dU[at + g * H] = d[g];
        }
        arrive(grid, tile);
    }
}
