// SPDX-License-Identifier: Apache-2.0
// The exported BLAS names: sgemm_, cblas_sgemm, cblas_sgemm_batch.
#include "integrations/blas/product.hpp"

#include <whet/whet.h>

namespace {

using whet::blas::Call;
using whet::blas::Entry;
using whet::blas::kColMajor;
using whet::blas::kConjTrans;
using whet::blas::Key;
using whet::blas::kNoTrans;
using whet::blas::kRowMajor;
using whet::blas::kTinyProduct;
using whet::blas::kTrans;
using whet::blas::Library;

/// 0: as it is, 1: transposed, -1: neither letter.
int transposed(char letter) {
    switch (letter) {
        case 'N':
        case 'n': return 0;
        case 'T':
        case 't':
        case 'C':
        case 'c': return 1;
        default: return -1;
    }
}

int transposed(int code) {
    return code == kNoTrans ? 0 : code == kTrans || code == kConjTrans ? 1 : -1;
}

/// Calls that no plan could help, or that only the original knows how to refuse.
bool is_bypassed(int m, int n, int k, float alpha, int ta, int tb) {
    return (ta | tb) < 0 || m <= 0 || n <= 0 || k <= 0 ||
           static_cast<int64_t>(m) * n * k < kTinyProduct || alpha == 0 ||
           whet::blas::inside_original();
}

}  // namespace

extern "C" {

WHET_API void sgemm_(const char* transa, const char* transb, const int* m, const int* n,
                     const int* k, const float* alpha, const float* a, const int* lda,
                     const float* b, const int* ldb, const float* beta, float* c, const int* ldc) {
    const Library* const library = whet::blas::library_at(__builtin_return_address(0));
    const int ta = transposed(*transa), tb = transposed(*transb);
    if (is_bypassed(*m, *n, *k, *alpha, ta, tb) && library->sgemm) {
        library->sgemm(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    Call call{
        {library, *m, *n, *k, *lda, *ldb, *ldc, *alpha, *beta, ta == 1, tb == 1, 0, Entry::sgemm},
        a,
        b,
        c};
    if (!library->sgemm) {
        whet::blas::run_original(call);
        return;
    }
    whet::blas::serve(call);
}

WHET_API void cblas_sgemm(int layout, int transa, int transb, int m, int n, int k, float alpha,
                          const float* a, int lda, const float* b, int ldb, float beta, float* c,
                          int ldc) {
    const Library* const library = whet::blas::library_at(__builtin_return_address(0));
    const int ta = transposed(transa), tb = transposed(transb);
    const bool row_major = layout == kRowMajor;
    if ((is_bypassed(m, n, k, alpha, ta, tb) || (!row_major && layout != kColMajor)) &&
        library->cblas_sgemm) {
        library->cblas_sgemm(layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    Call call{
        {library, m, n, k, lda, ldb, ldc, alpha, beta, ta == 1, tb == 1, 0, Entry::cblas_sgemm},
        a,
        b,
        c};
    if (row_major) {
        call = {
            {library, n, m, k, ldb, lda, ldc, alpha, beta, tb == 1, ta == 1, 1, Entry::cblas_sgemm},
            b,
            a,
            c};
    }
    if (!library->cblas_sgemm) {
        whet::blas::run_original(call);
        return;
    }
    whet::blas::serve(call);
}

WHET_API void cblas_sgemm_batch(int layout, const int* transa, const int* transb, const int* m,
                                const int* n, const int* k, const float* alpha, const float** a,
                                const int* lda, const float** b, const int* ldb, const float* beta,
                                float** c, const int* ldc, int groups, const int* group_size) {
    const Library* const library = whet::blas::library_at(__builtin_return_address(0));
    const auto original = [&] {
        library->cblas_sgemm_batch(layout, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c,
                                   ldc, groups, group_size);
    };
    const bool row_major = layout == kRowMajor;
    if (!library->cblas_sgemm_batch) {
        // No original: every product on its own, by the same rules.
        for (int group = 0, at = 0; group < groups; ++group) {
            for (int i = 0; i < group_size[group]; ++i, ++at) {
                cblas_sgemm(layout, transa[group], transb[group], m[group], n[group], k[group],
                            alpha[group], a[at], lda[group], b[at], ldb[group], beta[group], c[at],
                            ldc[group]);
            }
        }
        return;
    }
    if (groups != 1 || *group_size < 1 || (!row_major && layout != kColMajor)) return original();
    const int ta = transposed(*transa), tb = transposed(*transb), count = *group_size;
    // One site for the whole batch where its matrices lie evenly; the sum of the products counts as
    // the size.
    if ((ta | tb) < 0 || *m <= 0 || *n <= 0 || *k <= 0 || *alpha == 0 ||
        whet::blas::inside_original() ||
        static_cast<int64_t>(count) * *m * *n * *k < kTinyProduct) {
        return original();
    }
    const int64_t step_a = count > 1 ? a[1] - a[0] : 0, step_b = count > 1 ? b[1] - b[0] : 0,
                  step_c = count > 1 ? c[1] - c[0] : 0;
    if (step_a < 0 || step_b < 0 || step_c < 0) return original();
    for (int i = 2; i < count; ++i) {
        if (a[i] - a[i - 1] != step_a || b[i] - b[i - 1] != step_b || c[i] - c[i - 1] != step_c)
            return original();
    }
    Call call{{library, *m, *n, *k, *lda, *ldb, *ldc, *alpha, *beta, ta == 1, tb == 1, 0,
               Entry::cblas_sgemm_batch},
              *a,
              *b,
              *c};
    call.a_array = a, call.b_array = b, call.c_array = c;
    Key& key = call.key;
    key.step_a = step_a, key.step_b = step_b;
    if (row_major) {
        call = {{library, *n, *m, *k, *ldb, *lda, *ldc, *alpha, *beta, tb == 1, ta == 1, 1,
                 Entry::cblas_sgemm_batch},
                *b,
                *a,
                *c};
        call.a_array = b, call.b_array = a, call.c_array = c;
        key.step_a = step_b, key.step_b = step_a;
    }
    key.step_c = step_c;
    key.batch = count;
    whet::blas::serve(call);
}

}  // extern "C"
