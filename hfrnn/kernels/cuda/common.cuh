// Common to all sources. `real` is float or double. A thread computes one unit of one sequence in one time step, unless
// a kernel says otherwise. Arrays are C-contiguous, with the shapes of the reference kernels; K is the number of steps
// of the segment, B of sequences, H of units. Sizes and indices are 64-bit integers.

typedef long long Index;

#define EACH(e, count)                                        \
    const Index e = (Index)blockIdx.x * blockDim.x + threadIdx.x; \
    if (e >= (count)) return

__device__ inline float tanh_of(float x) { return tanhf(x); }
__device__ inline double tanh_of(double x) { return tanh(x); }
__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float expm1_of(float x) { return expm1f(x); }
__device__ inline double expm1_of(double x) { return expm1(x); }
__device__ inline float log1p_of(float x) { return log1pf(x); }
__device__ inline double log1p_of(double x) { return log1p(x); }

__device__ inline real sigma(real x) { return real(0.5) * tanh_of(real(0.5) * x) + real(0.5); }

// The activation functions, numbered as in launch.py.
enum { TANH, LOGISTIC, RELU, SOFTPLUS };

__device__ inline real activate(Index kind, real a) {
    if (kind == TANH) return tanh_of(a);
    if (kind == LOGISTIC) return sigma(a);
    if (kind == SOFTPLUS) return a > 0 ? a + log1p_of(exp_of(-a)) : log1p_of(exp_of(a));
    return a <= 0 ? real(0) : a;  // NaN stays NaN
}

// f'(a), computed from h = f(a).
__device__ inline real slope_of(Index kind, real h) {
    if (kind == TANH) return real(1) - h * h;
    if (kind == LOGISTIC) return h * (real(1) - h);
    if (kind == SOFTPLUS) return -expm1_of(-h);
    return h > 0 ? real(1) : real(0);
}
