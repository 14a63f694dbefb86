// SPDX-License-Identifier: Apache-2.0
// Who called: the caller's library, the originals that it would have reached, and whether those use
// one thread.
#pragma once

#include <cstddef>

namespace whet::blas {

using SgemmFunction = void (*)(const char* transa, const char* transb, const int* m, const int* n,
                               const int* k, const float* alpha, const float* a, const int* lda,
                               const float* b, const int* ldb, const float* beta, float* c,
                               const int* ldc);
using CblasSgemmFunction = void (*)(int layout, int transa, int transb, int m, int n, int k,
                                    float alpha, const float* a, int lda, const float* b, int ldb,
                                    float beta, float* c, int ldc);
using CblasSgemmBatchFunction = void (*)(int layout, const int* transa, const int* transb,
                                         const int* m, const int* n, const int* k,
                                         const float* alpha, const float** a, const int* lda,
                                         const float** b, const int* ldb, const float* beta,
                                         float** c, const int* ldc, int groups,
                                         const int* group_size);

/// One library that calls us. Made once, lives as long as the process; immutable.
struct Library {
    SgemmFunction sgemm = nullptr;  ///< null: no original anywhere
    CblasSgemmFunction cblas_sgemm = nullptr;
    CblasSgemmBatchFunction cblas_sgemm_batch = nullptr;
    int (*openblas_get_num_threads)() = nullptr;
    int (*omp_get_max_threads)() = nullptr;
    int (*omp_in_parallel)() = nullptr;
    void (*omp_set_num_threads)(int) = nullptr;
    int (*mkl_get_max_threads)() = nullptr;

    /// Whether the original would use one thread if the calling thread called it now. A few
    /// nanoseconds.
    bool one_thread() const {
        if (openblas_get_num_threads) return openblas_get_num_threads() == 1;
        if (omp_get_max_threads)
            return omp_get_max_threads() == 1 || (omp_in_parallel && omp_in_parallel() != 0);
        if (mkl_get_max_threads) return mkl_get_max_threads() == 1;
        return true;  // neither: a BLAS without threads
    }
};

/// The library that holds `return_address`. Cached by address: a few nanoseconds when known, else
/// some microseconds and a lock. Never null.
const Library* library_at(const void* return_address);

}  // namespace whet::blas
