// SPDX-License-Identifier: Apache-2.0
// From a product back to the original, called as the program calls it.
#include <unistd.h>

#include <atomic>

#include "integrations/blas/product.hpp"

namespace whet::blas {
namespace {

thread_local int original_depth __attribute__((tls_model("initial-exec"))) = 0;

int trans_code(uint8_t transposed) { return transposed ? kTrans : kNoTrans; }
char trans_letter(uint8_t transposed) { return transposed ? 'T' : 'N'; }

void warn_without_original() {
    static std::atomic<bool> said{false};
    if (said.exchange(true)) return;
    static constexpr char kLine[] =
        "whet level=warning topic=blas event=\"no BLAS behind libwhet_blas.so: Whet's own loops "
        "answer\"\n";
    if (::write(STDERR_FILENO, kLine, sizeof kLine - 1) < 0) return;
}

/// The plain loops, column-major; beta = 0 does not read c.
template <typename T>
void plain_product(const Call& call) {
    const Key& key = call.key;
    const auto *a = static_cast<const T*>(call.a), *b = static_cast<const T*>(call.b);
    auto* const c = static_cast<T*>(call.c);
    const T alpha = scalar<T>(key.alpha), beta = scalar<T>(key.beta);
    for (int64_t j = 0; j < key.n; ++j) {
        for (int64_t i = 0; i < key.m; ++i) {
            T sum = 0;
            for (int64_t p = 0; p < key.k && alpha != 0; ++p) {
                sum += (key.transa ? a[p + i * key.lda] : a[i + p * key.lda]) *
                       (key.transb ? b[j + p * key.ldb] : b[p + j * key.ldb]);
            }
            T& out = c[i * key.c_row_step() + j * key.ldc];
            out = beta == 0 ? alpha * sum : alpha * sum + beta * out;
        }
    }
}

/// A product as its caller said it: the sides of a row-major one are swapped back. Integers are
/// wide: callees of both widths read them (caller.hpp).
template <typename T>
struct Said {
    int layout, transa, transb;
    char letter_a, letter_b;
    int64_t m, n, k, lda, ldb, ldc, step_a, step_b, step_c, count;
    const T *a, *b;
    const T **a_array, **b_array;
};

template <typename T>
Said<T> said(const Call& call) {
    const Key& key = call.key;
    const auto *a = static_cast<const T*>(call.a), *b = static_cast<const T*>(call.b);
    auto **a_array = static_cast<const T**>(call.a_array),
         **b_array = static_cast<const T**>(call.b_array);
    if (key.row_major) {
        return {kRowMajor,
                trans_code(key.transb), trans_code(key.transa),
                trans_letter(key.transb), trans_letter(key.transa),
                key.n, key.m, key.k, key.ldb, key.lda, key.ldc,
                key.step_b, key.step_a, key.step_c, key.batch,
                b, a, b_array, a_array};
    }
    return {kColMajor,
            trans_code(key.transa), trans_code(key.transb),
            trans_letter(key.transa), trans_letter(key.transb),
            key.m, key.n, key.k, key.lda, key.ldb, key.ldc,
            key.step_a, key.step_b, key.step_c, key.batch,
            a, b, a_array, b_array};
}

template <typename T>
void call_gemv(const Call& call) {
    const Key& key = call.key;
    const T alpha = scalar<T>(key.alpha), beta = scalar<T>(key.beta);
    const auto *a = static_cast<const T*>(call.a), *x = static_cast<const T*>(call.b);
    auto* const y = static_cast<T*>(call.c);
    // A row-major matrix is the transpose of the column-major one that the key has.
    const uint8_t transposed = key.transa ^ key.row_major;
    const int64_t rows = transposed ? key.k : key.m, columns = transposed ? key.m : key.k;
    const int64_t lda = key.lda, incx = key.ldb, incy = key.ldc;
    if (key.original->operation == Operation::gemv) {
        const char letter = trans_letter(transposed);
        key.original->as<GemvFunction<T>>()(&letter, &rows, &columns, &alpha, a, &lda, x, &incx,
                                            &beta, y, &incy, 1);
        return;
    }
    key.original->as<CblasGemvFunction<T>>()(key.row_major ? kRowMajor : kColMajor,
                                             trans_code(transposed), rows, columns, alpha, a, lda,
                                             x, incx, beta, y, incy);
}

template <typename T>
void call_original(const Call& call) {
    const Key& key = call.key;
    const Original& original = *key.original;
    const Said s = said<T>(call);
    const T alpha = scalar<T>(key.alpha), beta = scalar<T>(key.beta);
    auto* const c = static_cast<T*>(call.c);
    switch (original.operation) {
        case Operation::gemv:
        case Operation::cblas_gemv: call_gemv<T>(call); return;
        case Operation::gemm:
            original.as<GemmFunction<T>>()(&s.letter_a, &s.letter_b, &s.m, &s.n, &s.k, &alpha, s.a,
                                           &s.lda, s.b, &s.ldb, &beta, c, &s.ldc, 1, 1);
            return;
        case Operation::cblas_gemm:
            original.as<CblasGemmFunction<T>>()(s.layout, s.transa, s.transb, s.m, s.n, s.k, alpha,
                                                s.a, s.lda, s.b, s.ldb, beta, c, s.ldc);
            return;
        case Operation::cblas_gemm_batch:
            original.as<CblasGemmBatchFunction<T>>()(
                s.layout, &s.transa, &s.transb, &s.m, &s.n, &s.k, &alpha, s.a_array, &s.lda,
                s.b_array, &s.ldb, &beta, static_cast<T**>(call.c_array), &s.ldc, 1, &s.count);
            return;
        case Operation::cblas_gemm_batch_strided:
            original.as<CblasGemmBatchStridedFunction<T>>()(
                s.layout, s.transa, s.transb, s.m, s.n, s.k, alpha, s.a, s.lda, s.step_a, s.b,
                s.ldb, s.step_b, beta, c, s.ldc, s.step_c, s.count);
            return;
    }
}

}  // namespace

InsideOriginal::InsideOriginal(bool really) noexcept : really_(really) {
    if (really_) ++original_depth;
}
InsideOriginal::~InsideOriginal() {
    if (really_) --original_depth;
}
bool inside_original() noexcept { return original_depth > 0; }

void run_original(const Call& call) {
    const InsideOriginal inside(true);
    const bool f64 = call.key.is_f64();
    if (call.key.original->function) {
        f64 ? call_original<double>(call) : call_original<float>(call);
    } else {
        warn_without_original();
        f64 ? plain_product<double>(call) : plain_product<float>(call);
    }
}

}  // namespace whet::blas
