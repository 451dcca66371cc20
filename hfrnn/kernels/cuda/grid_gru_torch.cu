// All steps of a segment of gru-torch in a cooperative launch: the equations of kernels/gru_torch.py, under its numbers.

#include "common.cuh"
#include "grid.cuh"
#include "gru_torch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_gru_torch_forward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index recorded, const real* U, const real* W_h,
    const real* b_hn, real* hs, real* k, real* rz)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 3, H, units);
    const int columns = whole_quads(3 * units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, hs + t * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            real sum[3];
            for (int g = 0; g < 3; g++) sum[g] = sum_of(grid, columns, s, g * units.most + i);  // F1
            gru_torch_unit(t, b, j, B, H, recorded, sum, U, b_hn, hs, k, rz);  // F2-F5, L1-L3
        }
        arrive(grid, tile);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_gru_torch_rforward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* RU, const real* W_h, const real* Rs,
    const real* Rb_hn, const real* rz, const real* k, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 3, H, units);
    const int columns = whole_quads(3 * units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, Rhs + t * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            real sum[3];
            for (int g = 0; g < 3; g++) sum[g] = sum_of(grid, columns, s, g * units.most + i);
            gru_torch_tangent(t, b, j, B, H, sum, RU, Rs, Rb_hn, rz, k, Rhs);  // R1-R5
        }
        arrive(grid, tile);
    }
}

// dh (B, H) changes from the adjoint after the segment to that before it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_gru_torch_backward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, const real* dhs, const real* W_h_T, const real* rz,
    const real* k, real* dh, real* dU, real* ds)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h_T, 3 * H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = K - 1; t >= -1; t--) EACH_TILE(grid) {
        wait(grid, tile);
        if (t < K - 1) multiply_tile(grid, tile, ds + (t + 1) * B * 3 * H, 3 * H, 3 * H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index at = b * H + j;
            real dh_t = dh[at];
            if (t < K - 1) dh_t += sum_of(grid, columns, s, i);  // B4
            dh[at] = t < 0 ? dh_t
                           : gru_torch_adjoint(t, b, j, B, H, dh_t + dhs[t * B * H + at], rz, k, dU, ds);  // B1-B4
        }
        arrive(grid, tile);
    }
}
