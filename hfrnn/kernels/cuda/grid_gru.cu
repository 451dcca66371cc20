// All steps of a segment of gru in a cooperative launch: the equations of kernels/gru.py, under its numbers. A step has
// two barriers.

#include "common.cuh"
#include "grid.cuh"
#include "gru.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_gru_forward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index recorded, const real* U, const real* W_h,
    const real* W_hg, real* hs, real* rz, real* q, real* k_g, real* k_rz)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real *W = keep_gates(grid, W_h, H, 2, H, units), *W_g = keep_gates(grid, W_hg, H, 1, H, units);
    const int many = whole_quads(2 * units.most), few = whole_quads(units.most);
    for (Index t = 0; t < K; t++) {
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, hs + t * B * H, H, H, W, many);
            EACH_UNIT(grid, tile, units) {
                const real r_sum = sum_of(grid, many, s, i), z_sum = sum_of(grid, many, s, units.most + i);
                gru_reset_unit(t, b, j, B, H, recorded, r_sum, z_sum, U, hs, rz, q, k_rz);  // F1, F2, L1
            }
            arrive(grid, tile);
        }
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, q + (recorded ? t * B * H : 0), H, H, W_g, few);
            EACH_UNIT(grid, tile, units) {
                const real g_sum = sum_of(grid, few, s, i);
                gru_update_unit(t, b, j, B, H, recorded, g_sum, U, hs, rz, k_g, k_rz);  // F3, F4, L2, L3
            }
            arrive(grid, tile);
        }
    }
}

// Rq (B, H) holds the tangents of q of one step.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_gru_rforward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* RU, const real* W_h, const real* W_hg,
    const real* rz, const real* k_rz, const real* k_g, real* Ra, const real* Ra_g, real* Rq, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real *W = keep_gates(grid, W_h, H, 2, H, units), *W_g = keep_gates(grid, W_hg, H, 1, H, units);
    const int many = whole_quads(2 * units.most), few = whole_quads(units.most);
    for (Index t = 0; t < K; t++) {
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, Rhs + t * B * H, H, H, W, many);
            EACH_UNIT(grid, tile, units) {
                const real r_sum = sum_of(grid, many, s, i), z_sum = sum_of(grid, many, s, units.most + i);
                Rq[b * H + j] = gru_reset_tangent(t, b, j, B, H, r_sum, z_sum, RU, rz, k_rz, Rhs, Ra);  // R1, R2
            }
            arrive(grid, tile);
        }
        EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, Rq, H, H, W_g, few);
            EACH_UNIT(grid, tile, units) {
                const real g_sum = sum_of(grid, few, s, i);
                gru_update_tangent(t, b, j, B, H, g_sum, RU, rz, k_g, Ra, Ra_g, Rhs);  // R3, R4
            }
            arrive(grid, tile);
        }
    }
}

// dh (B, H) changes from the adjoint after the segment to that before it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_gru_backward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* dhs, const real* W_h_T,
    const real* W_hg_T, const real* rz, const real* k_rz, const real* k_g, real* dh, real* da, real* da_g, real* dU)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real *W = keep_gates(grid, W_h_T, 2 * H, 1, H, units), *W_g = keep_gates(grid, W_hg_T, H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = K - 1; t >= -1; t--) {
        EACH_TILE(grid) {
            wait(grid, tile);
            if (t < K - 1) multiply_tile(grid, tile, da + (t + 1) * B * 2 * H, 2 * H, 2 * H, W, columns);
            EACH_UNIT(grid, tile, units) {
                const Index at = b * H + j;
                real dh_t = dh[at];
                if (t < K - 1) dh_t += sum_of(grid, columns, s, i);  // B4
                if (t >= 0) {
                    dh_t += dhs[t * B * H + at];
                    dh_t = gru_update_adjoint(t, b, j, B, H, dh_t, rz, k_rz, k_g, da, da_g, dU);  // B1, B4
                }
                dh[at] = dh_t;
            }
            arrive(grid, tile);
        }
        if (t >= 0) EACH_TILE(grid) {
            wait(grid, tile);
            multiply_tile(grid, tile, da_g + t * B * H, H, H, W_g, columns);
            EACH_UNIT(grid, tile, units) {
                const real dq = sum_of(grid, columns, s, i);  // B2
                dh[b * H + j] += gru_reset_adjoint(t, b, j, B, H, dq, rz, k_rz, da, dU);  // B3, B4
            }
            arrive(grid, tile);
        }
    }
}
