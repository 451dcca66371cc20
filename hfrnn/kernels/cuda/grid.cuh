// Common to the kernels that run all K steps of a segment in one cooperative launch, for networks whose matrices do not
// fit the shared memory of one block. The blocks of a team share the units: each keeps the columns of its own units in
// shared memory for the whole segment. The teams share the sequences, in tiles of TILE. For each tile and step, a block
// waits until its team has left the values of the step before in global memory, multiplies them by its columns,
// computes its units, and tells its team. While a tile waits, the block computes the next one.
//
// The number of blocks is a multiple of `parts`, the blocks of a team. THREADS is the number of threads of a block. All
// arrays that blocks exchange are read with `fresh`, past the first-level cache, which does not see other blocks.

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

#ifndef SPIN_WHILE
#define SPIN_WHILE(condition) while (condition) {}
__device__ inline float fresh(const float* p)
{
    float x;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory");
    return x;
}
__device__ inline double fresh(const double* p)
{
    double x;
    asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(x) : "l"(p) : "memory");
    return x;
}
#endif

const int TILE = 8, QUAD = 4, LINE = 32;  // LINE: the counters of two tiles lie in different lines of the cache
const int CHUNK = QUAD * THREADS;         // rows of a product that lie in shared memory at the same time
const int WORK = TILE * (CHUNK + QUAD);   // values of the memory that a product uses

struct alignas(16) Quad { real of[QUAD]; };

__device__ inline Quad quad(const real* p) { return *(const Quad*)p; }
__device__ inline int whole_quads(int n) { return (n + QUAD - 1) / QUAD * QUAD; }

struct Grid {
    int B, tiles, parts, part, teams, team;
    unsigned *barriers, *seen;  // barriers (tiles, LINE): arrivals and generation; seen: generations at the arrival
    real *work, *end;           // the memory of products, and the end of the memory that is given out
};

// The part of a layer of `width` units that this block computes: `own` of them from `first` on, `most` in any block.
struct Units { int most, first, own; };

#define EACH_TILE(grid) for (int tile = (grid).team; tile < (grid).tiles; tile += (grid).teams)

// Each unit j of `units` of each sequence b of a tile; column i of the block's columns is the first one of that unit.
#define EACH_UNIT(grid, tile, units)                                                                           \
    for (int e = threadIdx.x, i, s, j, b; e < (units).own * TILE; e += THREADS)                               \
        if (i = e % (units).own, s = e / (units).own, j = (units).first + i, b = (tile) * TILE + s, b < (grid).B)

__device__ inline Grid begin_grid(real* shared, Index B, Index parts, unsigned* barriers)
{
    Grid grid;
    grid.B = B;
    grid.tiles = (B + TILE - 1) / TILE;
    grid.parts = parts;
    grid.part = blockIdx.x % parts;
    grid.teams = gridDim.x / parts;
    grid.team = blockIdx.x / parts;
    grid.barriers = barriers;
    grid.work = shared;
    grid.seen = (unsigned*)(shared + WORK);
    grid.end = shared + WORK + whole_quads((grid.tiles + grid.teams - 1) / grid.teams);
    // The generation of a tile cannot change before this block has arrived.
    volatile unsigned* generations = barriers + 1;
    if (threadIdx.x == 0) EACH_TILE(grid) grid.seen[tile / grid.teams] = generations[tile * LINE] - 1;
    return grid;
}

__device__ inline Units units_of(const Grid& grid, int width)
{
    const int most = (width + grid.parts - 1) / grid.parts, first = grid.part * most, left = width - first;
    return {most, first, left < 0 ? 0 : left < most ? left : most};
}

// Give out memory for N rows of `columns` columns, a multiple of QUAD, and set it to 0.
__device__ inline real* give_columns(Grid& grid, int N, int columns)
{
    real* W = grid.end;
    grid.end += whole_quads(N) * columns;
    for (int n = threadIdx.x; n < whole_quads(N) * columns; n += THREADS) W[n] = 0;
    __syncthreads();
    return W;
}

// Copy the columns of the units, from column `from` of a matrix (N, width), to the columns from `to` on.
__device__ inline void keep_columns(
    real* W, int columns, int to, const real* matrix, int N, int width, int from, const Units& units)
{
    for (int e = threadIdx.x; e < N * units.own; e += THREADS) {
        const int n = e / units.own, i = e % units.own;
        W[n * columns + to + i] = matrix[n * width + from + units.first + i];
    }
}

// The columns of a matrix (N, gates * H) that belong to the units of this block, gates `units.most` columns apart.
__device__ inline real* keep_gates(Grid& grid, const real* matrix, int N, int gates, int H, const Units& units)
{
    const int columns = whole_quads(gates * units.most);
    real* W = give_columns(grid, N, columns);
    for (int g = 0; g < gates; g++)
        keep_columns(W, columns, g * units.most, matrix, N, gates * H, g * H, units);
    return W;
}

// Wait until all blocks of the team have arrived as often as this block.
__device__ inline void wait(const Grid& grid, int tile)
{
    if (threadIdx.x == 0) {
        volatile unsigned* generation = grid.barriers + tile * LINE + 1;
        SPIN_WHILE(*generation == grid.seen[tile / grid.teams]);
        __threadfence();
    }
    __syncthreads();
}

// Tell the team that this block has computed its units. The last block sets the arrivals to 0 and starts a generation,
// so the counters need no reset between two launches.
__device__ inline void arrive(const Grid& grid, int tile)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned* arrivals = grid.barriers + tile * LINE;
        grid.seen[tile / grid.teams] = ((volatile unsigned*)arrivals)[1];
        __threadfence();
        if (atomicAdd(arrivals, 1u) == grid.parts - 1) {
            *(volatile unsigned*)arrivals = 0;
            __threadfence();
            atomicAdd(arrivals + 1, 1u);
        }
    }
}

// The rows of a product are added up in slices, by as many groups of threads, and the slices in `sums_of` partial sums.
__device__ inline int slices_of(int columns) { return THREADS / (columns / QUAD); }
__device__ inline int sums_of(int columns)
{
    const int helpers = THREADS / (TILE * columns), slices = slices_of(columns);
    return helpers < 2 ? slices : helpers < slices ? helpers : slices;
}

// Multiply the rows of the tile of x (B, stride), N values each, by the block's columns W (N, columns). A thread adds up
// QUAD columns of TILE sequences over a slice of the rows. `sum_of` returns the results. The order of a sum depends on
// sizes only.
__device__ inline void multiply_tile(
    const Grid& grid, int tile, const real* x, Index stride, int N, const real* W, int columns)
{
    const int lanes = columns / QUAD, slices = slices_of(columns), slice = threadIdx.x / lanes;
    const int lane = threadIdx.x % lanes * QUAD;
    real sum[TILE][QUAD] = {};
    for (int start = 0; start < N; start += CHUNK) {
        const int rows = N - start < CHUNK ? N - start : CHUNK, quads = whole_quads(rows) / QUAD;
        __syncthreads();
        for (int n = threadIdx.x; n < quads * QUAD; n += THREADS) {
            real value[TILE];
            for (int s = 0; s < TILE; s++) {
                const int b = tile * TILE + s;
                value[s] = n < rows && b < grid.B ? fresh(x + b * stride + start + n) : real(0);
            }
            for (int s = 0; s < TILE; s++) grid.work[s * (CHUNK + QUAD) + n] = value[s];
        }
        __syncthreads();
        const real* W_rows = W + start * columns + lane;
        if (slice < slices)
            for (int q = slice; q < quads; q += slices) {
                Quad w[QUAD];
                for (int n = 0; n < QUAD; n++) w[n] = quad(W_rows + (q * QUAD + n) * columns);
                for (int s = 0; s < TILE; s++) {
                    const Quad value = quad(grid.work + s * (CHUNK + QUAD) + q * QUAD);
                    for (int n = 0; n < QUAD; n++)
                        for (int c = 0; c < QUAD; c++) sum[s][c] += value.of[n] * w[n].of[c];
                }
            }
    }
    __syncthreads();
    if (slice < slices)
        for (int s = 0; s < TILE; s++)
            for (int c = 0; c < QUAD; c++) grid.work[(slice * TILE + s) * columns + lane + c] = sum[s][c];
    __syncthreads();
    const int results = TILE * columns, sums = sums_of(columns), first = threadIdx.x / results;
    if (sums == slices) return;
    real partial = 0;
    if (first < sums)
        for (int z = first; z < slices; z += sums) partial += grid.work[z * results + threadIdx.x % results];
    __syncthreads();
    if (first < sums) grid.work[threadIdx.x] = partial;
    __syncthreads();
}

// The product of sequence s of the tile and a column, after `multiply_tile`.
__device__ inline real sum_of(const Grid& grid, int columns, int s, int column)
{
    const int sums = sums_of(columns);
    real sum = 0;
    for (int z = 0; z < sums; z++) sum += grid.work[(z * TILE + s) * columns + column];
    return sum;
}
