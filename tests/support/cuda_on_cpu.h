// What CUDA sources need to run on a CPU: each thread of a block is a coroutine, and __syncthreads passes on to the
// next one. Blocks run one after another.

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)

struct Dim3 { unsigned x, y, z; };
static Dim3 gridDim, blockDim, blockIdx, threadIdx;
static long long shared_storage[1 << 16];  // dynamic shared memory, 512 KiB
#define DYNAMIC_SHARED(type, name) type* name = (type*)shared_storage

struct Thread { ucontext_t context; char* stack; bool done; };
static const size_t STACK = 1 << 16;
static Thread* threads;
static ucontext_t scheduler;
static unsigned running;
static void (*body)(void*);
static void* body_arguments;
static bool yields;

static void run_thread() {
    body(body_arguments);
    threads[running].done = true;
    swapcontext(&threads[running].context, &scheduler);
}

static void __syncthreads() {
    yields = true;
    swapcontext(&threads[running].context, &scheduler);
}

static void start_block(unsigned size) {
    for (unsigned n = 0; n < size; n++) {
        Thread& thread = threads[n];
        thread.done = false;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack;
        thread.context.uc_stack.ss_size = STACK;
        thread.context.uc_link = 0;
        makecontext(&thread.context, run_thread, 0);
    }
    for (unsigned left = size; left;) {
        unsigned finished = 0;
        for (unsigned n = 0; n < size; n++) {
            if (threads[n].done) continue;
            running = n;
            threadIdx.x = n;
            swapcontext(&scheduler, &threads[n].context);
            finished += threads[n].done;
        }
        if (finished && finished != left) abort();  // some threads wait at a barrier that others never reach
        left -= finished;
    }
}

// Launch a grid. Threads that never synchronise run as plain calls. Returns whether all blocks kept to their shared
// memory.
static bool launch(
    unsigned grid, unsigned size, size_t shared, bool synchronizes, void (*function)(void*), void* arguments)
{
    if (shared + 4096 > sizeof shared_storage) abort();
    bool kept = true;
    gridDim = {grid, 1, 1};
    blockDim = {size, 1, 1};
    body = function;
    body_arguments = arguments;
    if (synchronizes) {
        threads = (Thread*)calloc(size, sizeof(Thread));
        for (unsigned n = 0; n < size; n++) threads[n].stack = (char*)malloc(STACK);
    }
    for (unsigned b = 0; b < grid; b++) {
        blockIdx = {b, 0, 0};
        memset(shared_storage, 0xff, shared + 4096);  // NaN: memory read before it is written shows
        if (synchronizes) start_block(size);
        else
            for (unsigned n = 0; n < size; n++) {
                threadIdx = {n, 0, 0};
                function(arguments);
            }
        const unsigned char* bytes = (const unsigned char*)shared_storage;
        for (size_t n = shared; n < shared + 4096; n++) kept = kept && bytes[n] == 0xff;
    }
    if (synchronizes) {
        for (unsigned n = 0; n < size; n++) free(threads[n].stack);
        free(threads);
    }
    return kept;
}
