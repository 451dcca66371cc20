// All steps of a segment of leaky in a cooperative launch: the equations of kernels/leaky.py, under its numbers. The
// arguments are those of segment_leaky.cu.

#include "common.cuh"
#include "grid.cuh"
#include "leaky.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_leaky_forward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index kind, Index recorded, Index learned,
    const real* U, const real* W_h, const real* leak, real* hs, real* k, real* e_kept)
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
            const real a = sum_of(grid, columns, s, i) + U[now];  // F1
            real k_t, e_t;
            hs[now + B * H] = leaky_unit(kind, a, leak[j], hs[now], &k_t, &e_t);  // F2, F3
            if (recorded) k[now] = k_t;  // L1
            if (recorded && learned) e_kept[now] = e_t;  // L2
        }
        arrive(grid, tile);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_leaky_rforward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index learned, const real* RU, const real* W_h,
    const real* Ra, const real* leak, const real* k, const real* e_kept, const real* Rq, real* Rhs)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, Rhs + t * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index now = (t * B + b) * H + j;
            const real R = Ra[now] + sum_of(grid, columns, s, i) + RU[now], Rq_j = learned ? Rq[j] : real(0);  // R1
            Rhs[now + B * H] = leaky_tangent(R, leak[j], Rhs[now], k[now], e_kept[now], Rq_j);  // R2
        }
        arrive(grid, tile);
    }
}

// dh (B, H) changes from the adjoint after the segment to that before it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_leaky_backward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index learned, const real* dhs, const real* W_h_T,
    const real* leak, const real* k, const real* e_kept, real* dh, real* dU, real* de)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h_T, H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = K - 1; t >= -1; t--) EACH_TILE(grid) {
        wait(grid, tile);
        if (t < K - 1) multiply_tile(grid, tile, dU + (t + 1) * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index at = b * H + j, now = t * B * H + at;
            real dh_t = dh[at];
            if (t < K - 1) dh_t += sum_of(grid, columns, s, i);  // B2
            if (t >= 0) {
                dh_t += dhs[now];
                dU[now] = dh_t * k[now];  // B1
                if (learned) de[now] = dh_t * e_kept[now];  // B3
                dh_t *= real(1) - leak[j];  // B2
            }
            dh[at] = dh_t;
        }
        arrive(grid, tile);
    }
}
