// SPDX-License-Identifier: Apache-2.0
// Who called: the caller's library, the originals that it would have reached, the width of their
// integers and how many threads they use.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "integrations/blas/names.hpp"

namespace whet::blas {

// The originals' types. x86-64 passes a 32-bit and a 64-bit integer in the same places, and memory
// is little-endian, so one type per calling convention serves both widths: integers by value are
// int64_t, of which a narrow callee looks at the lower half; integers by address are int64_t
// objects, or what the caller gave, passed on unread. Fortran's hidden string lengths come last,
// always passed: a Fortran callee may use their places on the stack. T: float or double.
template <typename T>
using GemmFunction = void (*)(const char* transa, const char* transb, const void* m, const void* n,
                              const void* k, const T* alpha, const T* a, const void* lda,
                              const T* b, const void* ldb, const T* beta, T* c,
                              const void* ldc, size_t transa_length, size_t transb_length);
template <typename T>
using GemvFunction = void (*)(const char* trans, const void* m, const void* n, const T* alpha,
                              const T* a, const void* lda, const T* x, const void* incx,
                              const T* beta, T* y, const void* incy, size_t trans_length);
template <typename T>
using CblasGemmFunction = void (*)(int layout, int transa, int transb, int64_t m, int64_t n,
                                   int64_t k, T alpha, const T* a, int64_t lda,
                                   const T* b, int64_t ldb, T beta, T* c, int64_t ldc);
template <typename T>
using CblasGemvFunction = void (*)(int layout, int trans, int64_t m, int64_t n, T alpha,
                                   const T* a, int64_t lda, const T* x, int64_t incx,
                                   T beta, T* y, int64_t incy);
template <typename T>
using CblasGemmBatchFunction = void (*)(int layout, const int* transa, const int* transb,
                                        const void* m, const void* n, const void* k,
                                        const T* alpha, const T** a, const void* lda,
                                        const T** b, const void* ldb, const T* beta,
                                        T** c, const void* ldc, int64_t groups,
                                        const void* group_size);
template <typename T>
using CblasGemmBatchStridedFunction = void (*)(int layout, int transa, int transb, int64_t m,
                                               int64_t n, int64_t k, T alpha, const T* a,
                                               int64_t lda, int64_t step_a, const T* b,
                                               int64_t ldb, int64_t step_b, T beta, T* c,
                                               int64_t ldc, int64_t step_c, int64_t count);

/// How an original chooses its number of threads, and the OpenMP runtime that it runs them on; null
/// where the library has no such function.
struct Threads {
    int (*openblas_get_num_threads)() = nullptr;
    int (*mkl_get_max_threads)() = nullptr;
    int (*mkl_set_num_threads_local)(int) = nullptr;
    int (*omp_get_max_threads)() = nullptr;
    int (*omp_in_parallel)() = nullptr;
    void (*omp_set_num_threads)(int) = nullptr;
    int (*omp_get_num_threads)() = nullptr;
    int (*omp_get_thread_num)() = nullptr;
    /// GNU's entry of a parallel region, which Intel's and LLVM's runtimes have too.
    void (*gomp_parallel)(void (*body)(void*), void* data, unsigned threads,
                          unsigned flags) = nullptr;

    /// How many threads the original would use if the calling thread called it now. A few
    /// nanoseconds.
    int count() const {
        const auto most = openblas_get_num_threads ? openblas_get_num_threads
                          : omp_get_max_threads    ? omp_get_max_threads
                                                   : mkl_get_max_threads;
        const int threads = most ? most() : 1;  // none of them: a BLAS without threads
        if (threads <= 1 || (omp_in_parallel && omp_in_parallel())) return 1;
        return mkl_get_max_threads ? std::min(threads, mkl_get_max_threads()) : threads;
    }
    bool one() const { return count() <= 1; }
    /// The calling thread's own calls of the original use one thread from now on.
    void set_one() const {
        if (omp_set_num_threads) omp_set_num_threads(1);
        if (mkl_set_num_threads_local) mkl_set_num_threads_local(1);
    }
    /// Whether run_on_openmp works.
    bool shared() const { return gomp_parallel && omp_get_num_threads && omp_get_thread_num; }
};

/// The `run` of a whet_executor whose `self` is a Threads that is shared(). On the calling thread
/// alone in the child of a fork: the team that a region here left behind is not there, and GNU's
/// runtime would wait for it.
void run_on_openmp(void* threads, int count, void (*task)(void* data, int index), void* data);

/// What one caller's library reaches by one name. Made once, lives as long as the process;
/// immutable.
struct Original {
    void* function = nullptr;  ///< null: there is none anywhere
    Operation operation = Operation::gemm;
    bool f64 = false;
    bool wide_integers = false;
    Threads threads;
    /// Of a batch that the library does not have: its cblas_gemm, called once per product.
    const Original* single = nullptr;

    template <typename Function>
    Function as() const {
        return reinterpret_cast<Function>(function);
    }
};

/// A place that calls us by one name: filled once under a mutex, read without.
struct CallSite {
    std::atomic<uint64_t> key{0};  ///< return address, the name above its 47 bits; 0: free
    std::atomic<const Original*> original{nullptr};
};
/// Open addressing; filled to half.
inline constexpr size_t kCallSites = 1024;
extern CallSite call_sites[kCallSites];

inline uint64_t call_site_key(const void* return_address, Name name) {
    return reinterpret_cast<uintptr_t>(return_address) |
           (static_cast<uint64_t>(name) + 1) << 56;  // + 1: never 0
}
inline size_t first_call_site(uint64_t key) {
    return (key * 0x9e3779b97f4a7c15ull >> 40) % kCallSites;
}

/// original_at for call sites that are not at their first place.
const Original& find_original(const void* return_address, Name name);

/// What the library that holds `return_address` reaches by `name`. A nanosecond when known, else
/// some tens of microseconds and a lock.
inline const Original& original_at(const void* return_address, Name name) {
    const uint64_t key = call_site_key(return_address, name);
    const CallSite& site = call_sites[first_call_site(key)];
    if (__builtin_expect(site.key.load(std::memory_order_acquire) == key, 1))
        return *site.original.load(std::memory_order_relaxed);
    return find_original(return_address, name);
}

}  // namespace whet::blas
