// What CUDA sources need to run on a CPU. Each thread is a coroutine. It runs until it waits: in __syncthreads for its
// block, or in SPIN_WHILE for another block. The blocks of a cooperative launch run in turn, those of others one after
// another; every second launch takes blocks and threads in descending order. After an atomic addition to another number
// than 0, so not by the first block to arrive, other blocks run before the other threads of the block.

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __restrict__
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(type, name) type* name = (type*)blocks[blockIdx.x].shared
#define SPIN_WHILE(condition) while (condition) pause_thread(SPINNING)

struct Dim3 { unsigned x, y, z; };
static Dim3 gridDim, blockDim, blockIdx, threadIdx;

enum State { READY, SYNCHRONIZING, SPINNING, YIELDING, DONE };
struct Thread { ucontext_t context; char* stack; State state; };
struct Block { Thread* threads; char* shared; };

static const size_t STACK = 1 << 16, GUARD = 4096;
static Block* blocks;
static ucontext_t scheduler;
static void (*body)(void*);
static void* body_arguments;
static bool blocks_run_in_turn;

static Thread& this_thread() { return blocks[blockIdx.x].threads[threadIdx.x]; }

static void pause_thread(State state) {
    Thread& thread = this_thread();
    thread.state = state;
    swapcontext(&thread.context, &scheduler);
}

static void run_thread() {
    body(body_arguments);
    pause_thread(DONE);
}

static void __syncthreads() { pause_thread(SYNCHRONIZING); }
static void __threadfence() {}

static unsigned atomicAdd(unsigned* address, unsigned value) {
    const unsigned before = *address;
    *address += value;
    if (blocks_run_in_turn && before) pause_thread(YIELDING);
    return before;
}

template <class T> static T fresh(const T* address) { return *address; }

enum Outcome { FINE, BEYOND_SHARED_MEMORY, DEADLOCK };

// Run the threads of a block until all wait for other blocks, or are done, or some wait at a barrier that others never
// reach, or one lets other blocks run. Returns whether one of them did more than look in vain whether it may go on.
static bool run_block(unsigned b, unsigned size, bool descending) {
    bool progress = false;
    blockIdx = {b, 0, 0};
    for (;;) {
        unsigned in_state[DONE + 1] = {0};
        for (unsigned n = 0; n < size; n++) {
            threadIdx = {descending ? size - 1 - n : n, 0, 0};
            Thread& thread = this_thread();
            const State before = thread.state;
            if (before == READY || before == SPINNING || before == YIELDING) {
                swapcontext(&scheduler, &thread.context);
                progress = progress || before != SPINNING || thread.state != SPINNING;
                if (thread.state == YIELDING) return true;
            }
            in_state[thread.state]++;
        }
        if (in_state[SPINNING] || in_state[DONE] == size) return progress;
        if (in_state[DONE]) return false;
        for (unsigned n = 0; n < size; n++) blocks[b].threads[n].state = READY;
    }
}

static void start_block(unsigned b, unsigned size) {
    Block& block = blocks[b];
    block.threads = (Thread*)calloc(size, sizeof(Thread));
    for (unsigned n = 0; n < size; n++) {
        Thread& thread = block.threads[n];
        thread.stack = (char*)malloc(STACK);
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack;
        thread.context.uc_stack.ss_size = STACK;
        thread.context.uc_link = 0;
        makecontext(&thread.context, run_thread, 0);
    }
}

static void end_block(unsigned b, unsigned size) {
    for (unsigned n = 0; n < size; n++) free(blocks[b].threads[n].stack);
    free(blocks[b].threads);
}

static bool all_done(unsigned b, unsigned size) {
    for (unsigned n = 0; n < size; n++)
        if (blocks[b].threads[n].state != DONE) return false;
    return true;
}

// Run the blocks in turn until all are done.
static Outcome run_blocks(unsigned first, unsigned count, unsigned size, bool descending) {
    for (unsigned b = first; b < first + count; b++) start_block(b, size);
    bool done = false, progress = true;
    while (!done && progress) {
        done = true, progress = false;
        for (unsigned n = 0; n < count; n++) {
            const unsigned b = first + (descending ? count - 1 - n : n);
            if (run_block(b, size, descending)) progress = true;
            done = done && all_done(b, size);
        }
    }
    for (unsigned b = first; b < first + count; b++) end_block(b, size);
    return done ? FINE : DEADLOCK;
}

// Launch a grid. Threads that never synchronise run as plain calls.
static Outcome launch(
    unsigned grid, unsigned size, size_t shared, bool synchronizes, bool cooperative, void (*function)(void*),
    void* arguments)
{
    static bool descending = false;
    Outcome outcome = FINE;
    gridDim = {grid, 1, 1};
    blockDim = {size, 1, 1};
    body = function;
    body_arguments = arguments;
    blocks_run_in_turn = cooperative;
    blocks = (Block*)calloc(grid, sizeof(Block));
    for (unsigned b = 0; b < grid; b++) {
        blocks[b].shared = (char*)aligned_alloc(64, (shared + GUARD + 63) / 64 * 64);
        memset(blocks[b].shared, 0xff, shared + GUARD);  // NaN: memory read before it is written shows
    }
    if (cooperative) outcome = run_blocks(0, grid, size, descending);
    for (unsigned n = 0; n < grid && !cooperative; n++) {
        const unsigned b = descending ? grid - 1 - n : n;
        if (synchronizes) {
            if (run_blocks(b, 1, size, descending) != FINE) outcome = DEADLOCK;
        } else
            for (unsigned each = 0; each < size; each++) {
                blockIdx = {b, 0, 0};
                threadIdx = {each, 0, 0};
                function(arguments);
            }
    }
    for (unsigned b = 0; b < grid; b++) {
        for (size_t n = shared; n < shared + GUARD; n++)
            if ((unsigned char)blocks[b].shared[n] != 0xff) outcome = BEYOND_SHARED_MEMORY;
        free(blocks[b].shared);
    }
    free(blocks);
    descending = !descending;
    return outcome;
}
