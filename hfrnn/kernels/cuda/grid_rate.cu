// All steps of a segment of rate in a cooperative launch: the equations of kernels/rate.py, under its numbers. The
// arguments are those of segment_rate.cu, and rate_begin has run.

#include "common.cuh"
#include "grid.cuh"
#include "rate.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_rate_forward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index kind, Index recorded, Index learned,
    const real* U, const real* W_h, const real* leak, real* x, real* e_kept, real* rs, real* k)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, rs + t * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index now = (t * B + b) * H + j, next = now + B * H;
            const real n = sum_of(grid, columns, s, i) + U[now];  // F1
            real k_t, e_t;
            rs[next] = rate_unit(kind, n, leak[j], x + b * H + j, &k_t, &e_t);  // F2, F3
            if (recorded) k[next] = k_t;  // L1
            if (recorded && learned) e_kept[now] = e_t;  // L2
        }
        arrive(grid, tile);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_rate_rforward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index learned, const real* RU, const real* W_h,
    const real* Rn, const real* leak, const real* k, const real* e_kept, const real* Rq, real* Rx, real* Rrs)
{
    DYNAMIC_SHARED(real, shared);
    Grid grid = begin_grid(shared, B, parts, barriers);
    const Units units = units_of(grid, H);
    const real* W = keep_gates(grid, W_h, H, 1, H, units);
    const int columns = whole_quads(units.most);
    for (Index t = 0; t < K; t++) EACH_TILE(grid) {
        wait(grid, tile);
        multiply_tile(grid, tile, Rrs + t * B * H, H, H, W, columns);
        EACH_UNIT(grid, tile, units) {
            const Index now = (t * B + b) * H + j, next = now + B * H;
            const real R = Rn[now] + sum_of(grid, columns, s, i) + RU[now], Rq_j = learned ? Rq[j] : real(0);  // R1
            Rrs[next] = rate_tangent(R, leak[j], k[next], e_kept[now], Rq_j, Rx + b * H + j);  // R2, R3
        }
        arrive(grid, tile);
    }
}

// dx (B, H) changes from the adjoint after the segment to that before it, without the part of dr, which the call
// leaves.
extern "C" __global__ void __launch_bounds__(THREADS, 1) grid_rate_backward(
    Index parts, unsigned* barriers, Index K, Index B, Index H, Index learned, const real* dhs, const real* W_h_T,
    const real* leak, const real* k, const real* e_kept, real* dx, real* dr, real* dU, real* de)
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
            const real dr_t = t < K - 1 ? sum_of(grid, columns, s, i) : real(0);  // B3
            if (t < 0) {
                dr[at] = dr_t;
                continue;
            }
            const real dx_t = dx[at] + (dr_t + dhs[now]) * k[now + B * H];  // B1
            if (learned) de[now] = dx_t * e_kept[now];  // B5
            dU[now] = dx_t * leak[j];  // B2
            dx[at] = dx_t * (real(1) - leak[j]);  // B4
        }
        arrive(grid, tile);
    }
}
