// All steps of a segment of mlstm and mlstm-standard in a cooperative launch: the equations of kernels/mlstm.py, under
// its numbers, and those of kernels/cells.py. The arguments are those of segment_mlstm.cu. A step has two barriers.

#include "common.cuh"
#include "grid.cuh"
#include "cells.cuh"

// c (B, H) changes from the cell state before the segment to that after it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_mlstm_forward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index krause, Index recorded, const real* U,
    const real* W_hm, const real* W_m, real* c, real* hs, real* k, real* f_kept, real* k_c, real* U_m, real* xi,
    real* m)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real *V = keep_gates(grid, W_hm, H, 1, H, units), *W = keep_gates(grid, W_m, H, 4, H, units);
    const int few = whole_quads(units.most), many = whole_quads(4 * units.most);
    for (Index t = 0; t < K; t++) {
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, hs + t * B * H, H, H, V, few);
            EACH_UNIT(grid, tile, units) {
                const Index row = t * B + b, now = row * H + j;
                const real factor = sum_of(grid, few, s, i), u = U[(row * 5 + 4) * H + j];  // F1
                U_m[now] = u;
                xi[now] = factor;
                m[now] = u * factor;  // F2
            }
            arrive(grid, tile);
        }
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, m + t * B * H, H, H, W, many);
            EACH_UNIT(grid, tile, units) {
                const Index row = t * B + b, now = row * H + j, at = row * 4 * H + j;
                real a[4], f, slope;
                for (int g = 0; g < 4; g++)
                    a[g] = sum_of(grid, many, s, g * units.most + i) + U[(row * 5 + g) * H + j];  // F3
                hs[now + B * H] = cell(krause, a, c + b * H + j, &f, &slope);  // F4
                if (!recorded) continue;
                for (int g = 0; g < 4; g++) k[at + g * H] = a[g];
                f_kept[now] = f;
                k_c[now] = slope;
            }
            arrive(grid, tile);
        }
    }
}

// Rh (B, H) is the tangent before the segment; Rc (B, H) changes to that after it. Rxi changes to the tangents of m.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_mlstm_rforward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* RU, const real* W_hm, const real* W_m,
    const real* Rh, real* Rxi, const real* Ra, const real* k, const real* f, const real* k_c, const real* U_m,
    const real* xi, real* Rc, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real *V = keep_gates(grid, W_hm, H, 1, H, units), *W = keep_gates(grid, W_m, H, 4, H, units);
    const int few = whole_quads(units.most), many = whole_quads(4 * units.most);
    for (Index t = 0; t < K; t++) {
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, t ? Rhs + (t - 1) * B * H : Rh, H, H, V, few);
            EACH_UNIT(grid, tile, units) {
                const Index row = t * B + b, now = row * H + j;
                const real R = Rxi[now] + sum_of(grid, few, s, i);  // R1
                Rxi[now] = RU[(row * 5 + 4) * H + j] * xi[now] + U_m[now] * R;  // R2
            }
            arrive(grid, tile);
        }
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, Rxi + t * B * H, H, H, W, many);
            EACH_UNIT(grid, tile, units) {
                const Index row = t * B + b, now = row * H + j, at = row * 4 * H + j;
                real R[4];
                for (int g = 0; g < 4; g++) {
                    const real sum = sum_of(grid, many, s, g * units.most + i);
                    R[g] = Ra[at + g * H] + sum + RU[(row * 5 + g) * H + j];  // R3
                }
                Rhs[now] = cell_tangent(k + at, R, f[now], k_c[now], H, Rc + b * H + j);  // R4
            }
            arrive(grid, tile);
        }
    }
}

// dh and dc (B, H) change from the adjoints after the segment to those before it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_mlstm_backward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* dhs, const real* W_hm_T, const real* W_m_T,
    const real* k, const real* f, const real* k_c, const real* U_m, const real* xi, real* dh, real* dc, real* da,
    real* dxi, real* dU)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real *V = keep_gates(grid, W_hm_T, H, 1, H, units), *W = keep_gates(grid, W_m_T, 4 * H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = K - 1; t >= -1; t--) {
        const bool last = t == K - 1;
        EACH_TILE(grid) {
            wait(grid, tile);
            if (!last) multiply_tile(grid, tile, dxi + (t + 1) * B * H, H, H, V, columns);
            EACH_UNIT(grid, tile, units) {
                const Index row = t * B + b, now = row * H + j, at = row * 4 * H + j;
                const real dh_t = last ? dh[b * H + j] : sum_of(grid, columns, s, i);  // B4
                if (t < 0) {
                    dh[b * H + j] = dh_t;
                    continue;
                }
                real d[4];
                cell_adjoint(k + at, dh_t + dhs[now], f[now], k_c[now], H, dc + b * H + j, d);  // B1
                for (int g = 0; g < 4; g++) dU[(row * 5 + g) * H + j] = da[at + g * H] = d[g];
            }
            arrive(grid, tile);
        }
        if (t >= 0) EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, da + t * B * 4 * H, 4 * H, 4 * H, W, columns);
            EACH_UNIT(grid, tile, units) {
                const Index row = t * B + b, now = row * H + j;
                const real dm = sum_of(grid, columns, s, i);  // B2
                dxi[now] = dm * U_m[now];  // B3
                dU[(row * 5 + 4) * H + j] = dm * xi[now];  // B3
            }
            arrive(grid, tile);
        }
    }
}
