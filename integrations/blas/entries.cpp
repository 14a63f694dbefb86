// SPDX-License-Identifier: Apache-2.0
// The exported BLAS names: one function per calling convention, exported once per name of the
// table.
#include "integrations/blas/product.hpp"

#include <climits>
#include <cstring>

namespace whet::blas {
namespace {

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

/// Reads integers as the caller of one name has them.
template <Integers kIntegers>
struct Reader {
    const bool wide;

    explicit Reader(const Original& original)
        : wide(kIntegers == Integers::wide ||
               (kIntegers == Integers::by_library && original.wide_integers)) {}
    int64_t operator()(int64_t by_value) const {
        return wide ? by_value : static_cast<int32_t>(by_value);
    }
    int64_t operator()(const void* by_address) const { return at(by_address, 0); }
    int64_t at(const void* array, int64_t index) const {
        return wide ? static_cast<const int64_t*>(array)[index]
                    : static_cast<const int32_t*>(array)[index];
    }
    const void* advance(const void* array, int64_t count) const {
        return static_cast<const char*>(array) + count * (wide ? 8 : 4);
    }
};

/// The sizes of a column-major product, as given; transa, transb: -1 what is not one of the letters.
struct Sizes {
    int transa, transb;
    int64_t m, n, k, lda, ldb, ldc;
};

/// Whether a product is at least `least` multiplications.
bool reaches(int64_t least, int64_t count, int64_t m, int64_t n, int64_t k) {
    int64_t product;
    return __builtin_mul_overflow(m, n, &product) || __builtin_mul_overflow(product, k, &product) ||
           __builtin_mul_overflow(product, count, &product) || product >= least;
}

/// Whose a call is.
enum class Verdict {
    whets,
    originals,    ///< no plan could help, or the arguments are wrong, which only it knows how to
                  ///< refuse: it gets them as they came
    unsupported,  ///< the original's too: of a form that no site has
};

[[gnu::cold, gnu::noinline]] Verdict unsupported() {
    whet_count_bypass(WHET_BYPASS_UNSUPPORTED);
    return Verdict::unsupported;
}

/// The calls that no plan could help: empty, tiny, alpha = 0, or inside an original.
template <typename T>
[[gnu::always_inline]] inline bool is_beneath(T alpha, int64_t m, int64_t n, int64_t k,
                                              int64_t count = 1) {
    return m <= 0 || n <= 0 || k <= 0 || count <= 0 || alpha == 0 ||
           !reaches(least_product(), count, m, n, k) || inside_original();
}

/// Whose a product is that is not beneath.
Verdict judge(const Sizes& s, int64_t count = 1) {
    if ((s.transa | s.transb) < 0) return Verdict::originals;
    if (s.lda < (s.transa ? s.k : s.m) || s.ldb < (s.transb ? s.n : s.k) || s.ldc < s.m)
        return Verdict::originals;
    const int64_t all_bits = s.m | s.n | s.k | s.lda | s.ldb | s.ldc | count;
    return all_bits <= INT_MAX ? Verdict::whets : unsupported();
}

/// The layout of a C name. An unknown one makes the letters unknown.
struct Layout {
    bool row_major, known;
    explicit Layout(int layout)
        : row_major(layout == kRowMajor), known(row_major || layout == kColMajor) {}
    int transposed(int code) const { return known ? blas::transposed(code) : -1; }
};

template <typename T>
Key key_of(const Original& original, const Sizes& s, T alpha, T beta, bool row_major) {
    Key key;
    key.original = &original;
    key.m = static_cast<int32_t>(s.m), key.n = static_cast<int32_t>(s.n);
    key.k = static_cast<int32_t>(s.k), key.lda = static_cast<int32_t>(s.lda);
    key.ldb = static_cast<int32_t>(s.ldb), key.ldc = static_cast<int32_t>(s.ldc);
    key.alpha = bits_of(alpha), key.beta = bits_of(beta);
    key.transa = s.transa == 1, key.transb = s.transb == 1;
    key.row_major = row_major;
    return key;
}

/// sgemm_ and its kin.
template <typename T, Integers kIntegers>
[[gnu::always_inline]] inline void gemm(const Original& original, const char* transa,
                                        const char* transb, const void* m, const void* n,
                                        const void* k, const T* alpha, const T* a,
                                        const void* lda, const T* b, const void* ldb,
                                        const T* beta, T* c, const void* ldc) {
    const Reader<kIntegers> read(original);
    const auto ask_original = [&] {
        original.as<GemmFunction<T>>()(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                                       1, 1);
    };
    if (is_beneath(*alpha, read(m), read(n), read(k)) && original.function) return ask_original();
    const Sizes sizes{transposed(*transa), transposed(*transb), read(m),   read(n),
                      read(k),             read(lda),           read(ldb), read(ldc)};
    const Verdict verdict = judge(sizes);
    if (verdict != Verdict::whets && original.function) {
        const InsideOriginal inside(verdict == Verdict::unsupported);
        return ask_original();
    }
    Call call{key_of(original, sizes, *alpha, *beta, false), a, b, c};
    serve(call);
}

/// cblas_sgemm and its kin. Row-major c = op(a) op(b) is column-major c' = op(b)' op(a)'.
template <typename T, Integers kIntegers>
[[gnu::always_inline]] inline void cblas_gemm(const Original& original, int layout, int transa,
                                              int transb, int64_t m, int64_t n, int64_t k,
                                              T alpha, const T* a, int64_t lda,
                                              const T* b, int64_t ldb, T beta, T* c,
                                              int64_t ldc) {
    const Reader<kIntegers> read(original);
    const auto ask_original = [&] {
        original.as<CblasGemmFunction<T>>()(layout, transa, transb, m, n, k, alpha, a, lda, b, ldb,
                                         beta, c, ldc);
    };
    if (is_beneath(alpha, read(m), read(n), read(k)) && original.function) return ask_original();
    const Layout order(layout);
    const int ta = order.transposed(transa), tb = order.transposed(transb);
    const bool row_major = order.row_major;
    const Sizes sizes =
        row_major ? Sizes{tb, ta, read(n), read(m), read(k), read(ldb), read(lda), read(ldc)}
                  : Sizes{ta, tb, read(m), read(n), read(k), read(lda), read(ldb), read(ldc)};
    const Verdict verdict = judge(sizes);
    if (verdict != Verdict::whets && original.function) {
        const InsideOriginal inside(verdict == Verdict::unsupported);
        return ask_original();
    }
    Call call{key_of(original, sizes, alpha, beta, row_major), row_major ? b : a, row_major ? a : b,
              c};
    serve(call);
}

/// One product of a batch that the caller's BLAS does not have.
template <typename T, Integers kIntegers>
[[gnu::noinline]] void single_gemm(const Original& batch, int layout, int transa, int transb,
                                   int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                                   int64_t lda, const T* b, int64_t ldb, T beta, T* c,
                                   int64_t ldc) {
    cblas_gemm<T, kIntegers>(*batch.single, layout, transa, transb, m, n, k, alpha, a, lda, b, ldb,
                          beta, c, ldc);
}

/// The sizes of y = op(a) x as a product with one column: vectors are one column with a leading
/// dimension, x read as the transpose of a row.
struct Vectors {
    Sizes sizes;
    bool supported;  ///< BLAS walks backwards along a vector with a negative increment
};
Vectors vectors_of(int trans, int64_t rows, int64_t columns, int64_t lda, int64_t incx,
                   int64_t incy) {
    const int64_t m = trans == 1 ? columns : rows, k = trans == 1 ? rows : columns;
    if (k == 1 && incx < 0) incx = 1;
    if (m == 1 && incy < 0) incy = 1;
    return {{trans, 1, m, 1, k, lda, incx, incy}, incx > 0 && incy > 0};
}

/// Whose a product with a vector is that is not beneath.
Verdict judge(const Vectors& v) {
    const Sizes& s = v.sizes;
    if (s.transa < 0) return Verdict::originals;
    if (s.lda < (s.transa ? s.k : s.m) || s.ldb == 0 || s.ldc == 0) return Verdict::originals;
    const bool fits = v.supported && (s.m | s.k | s.lda | s.ldb | s.ldc) <= INT_MAX;
    return fits ? Verdict::whets : unsupported();
}

/// sgemv_ and its kin.
template <typename T, Integers kIntegers>
[[gnu::always_inline]] inline void gemv(const Original& original, const char* trans, const void* m,
                                        const void* n, const T* alpha, const T* a,
                                        const void* lda, const T* x, const void* incx,
                                        const T* beta, T* y, const void* incy) {
    const Reader<kIntegers> read(original);
    const auto ask_original = [&] {
        original.as<GemvFunction<T>>()(trans, m, n, alpha, a, lda, x, incx, beta, y, incy, 1);
    };
    if (is_beneath(*alpha, read(m), read(n), 1) && original.function) return ask_original();
    const Vectors vectors =
        vectors_of(transposed(*trans), read(m), read(n), read(lda), read(incx), read(incy));
    const Verdict verdict = judge(vectors);
    if (verdict != Verdict::whets && original.function) {
        const InsideOriginal inside(verdict == Verdict::unsupported);
        return ask_original();
    }
    Call call{key_of(original, vectors.sizes, *alpha, *beta, false), a, x, y};
    serve(call);
}

/// cblas_sgemv and its kin. A row-major matrix is the transpose of a column-major one.
template <typename T, Integers kIntegers>
[[gnu::always_inline]] inline void cblas_gemv(const Original& original, int layout, int trans,
                                              int64_t m, int64_t n, T alpha, const T* a,
                                              int64_t lda, const T* x, int64_t incx, T beta,
                                              T* y, int64_t incy) {
    const Reader<kIntegers> read(original);
    const auto ask_original = [&] {
        original.as<CblasGemvFunction<T>>()(layout, trans, m, n, alpha, a, lda, x, incx, beta, y,
                                         incy);
    };
    if (is_beneath(alpha, read(m), read(n), 1) && original.function) return ask_original();
    const Layout order(layout);
    const int t = order.transposed(trans);
    const Vectors vectors =
        order.row_major
            ? vectors_of(t < 0 ? t : 1 - t, read(n), read(m), read(lda), read(incx), read(incy))
            : vectors_of(t, read(m), read(n), read(lda), read(incx), read(incy));
    const Verdict verdict = judge(vectors);
    if (verdict != Verdict::whets && original.function) {
        const InsideOriginal inside(verdict == Verdict::unsupported);
        return ask_original();
    }
    Call call{key_of(original, vectors.sizes, alpha, beta, order.row_major), a, x, y};
    serve(call);
}

/// The distance between neighbours of an array of pointers, the same for all; false when it is not,
/// or negative.
template <typename Element>
bool even_step(Element* const* pointers, int64_t count, int64_t& step) {
    step = count > 1 ? pointers[1] - pointers[0] : 0;
    for (int64_t i = 2; i < count; ++i) {
        if (pointers[i] - pointers[i - 1] != step) return false;
    }
    return step >= 0;
}

/// The steps of a batch, as the key's sides have them.
void set_batch(Key& key, int64_t count, int64_t step_a, int64_t step_b, int64_t step_c) {
    key.batch = static_cast<int32_t>(count);
    key.step_a = count > 1 ? (key.row_major ? step_b : step_a) : 0;
    key.step_b = count > 1 ? (key.row_major ? step_a : step_b) : 0;
    key.step_c = count > 1 ? step_c : 0;
}

/// The groups of a cblas_sgemm_batch: each is a call of its own.
template <typename T>
struct Groups {
    int layout;
    const int *transa, *transb;
    const void *m, *n, *k;
    const T* alpha;
    const T** a;
    const void* lda;
    const T** b;
    const void* ldb;
    const T* beta;
    T** c;
    const void* ldc;
    const void* group_size;
};

/// Serves one group by a site where its matrices lie evenly; else the original.
template <typename T, Integers kIntegers>
void one_group(const Original& original, const Groups<T>& g) {
    const Reader<kIntegers> read(original);
    const Layout order(g.layout);
    const bool row_major = order.row_major;
    const int ta = order.transposed(*g.transa), tb = order.transposed(*g.transb);
    const int64_t m = read(g.m), n = read(g.n), k = read(g.k);
    const int64_t lda = read(g.lda), ldb = read(g.ldb), count = read(g.group_size);
    if (!original.function) {
        for (int64_t i = 0; i < count; ++i) {
            single_gemm<T, kIntegers>(original, g.layout, *g.transa, *g.transb, m, n, k, *g.alpha,
                                   g.a[i], lda, g.b[i], ldb, *g.beta, g.c[i], read(g.ldc));
        }
        return;
    }
    const Sizes sizes = row_major ? Sizes{tb, ta, n, m, k, ldb, lda, read(g.ldc)}
                                  : Sizes{ta, tb, m, n, k, lda, ldb, read(g.ldc)};
    int64_t step_a = 0, step_b = 0, step_c = 0;
    // The sum of the products counts as the size.
    Verdict verdict = is_beneath(*g.alpha, m, n, k, count) ? Verdict::originals
                                                           : judge(sizes, count);
    if (verdict == Verdict::whets &&
        !(even_step(g.a, count, step_a) && even_step(g.b, count, step_b) &&
          even_step(g.c, count, step_c))) {
        verdict = unsupported();
    }
    if (verdict != Verdict::whets) {
        const InsideOriginal inside(verdict == Verdict::unsupported);
        original.as<CblasGemmBatchFunction<T>>()(g.layout, g.transa, g.transb, g.m, g.n, g.k,
                                                 g.alpha, g.a, g.lda, g.b, g.ldb, g.beta, g.c,
                                                 g.ldc, 1, g.group_size);
        return;
    }
    Call call{key_of(original, sizes, *g.alpha, *g.beta, row_major),
              row_major ? *g.b : *g.a,
              row_major ? *g.a : *g.b,
              *g.c,
              row_major ? g.b : g.a,
              row_major ? g.a : g.b,
              g.c};
    set_batch(call.key, count, step_a, step_b, step_c);
    serve(call);
}

/// cblas_sgemm_batch and its kin.
template <typename T, Integers kIntegers>
[[gnu::always_inline]] inline void cblas_gemm_batch(
    const Original& original, int layout, const int* transa, const int* transb, const void* m,
    const void* n, const void* k, const T* alpha, const T** a, const void* lda,
    const T** b, const void* ldb, const T* beta, T** c, const void* ldc, int64_t groups,
    const void* group_size) {
    const Reader<kIntegers> read(original);
    const int64_t group_count = read(groups);
    // Groups run one after the other where the original would do the same.
    const bool on_threads = group_count > 1 && original.function && !original.threads.one();
    if (original.function && (group_count < 1 || inside_original() || on_threads)) {
        if (on_threads && !inside_original()) whet_count_bypass(WHET_BYPASS_THREADS);
        const InsideOriginal inside(on_threads);
        original.as<CblasGemmBatchFunction<T>>()(layout, transa, transb, m, n, k, alpha, a, lda, b,
                                                 ldb, beta, c, ldc, groups, group_size);
        return;
    }
    for (int64_t group = 0, first = 0; group < group_count; ++group) {
        const auto of_group = [&](const void* array) { return read.advance(array, group); };
        one_group<T, kIntegers>(
            original, {layout, transa + group, transb + group, of_group(m), of_group(n),
                       of_group(k), alpha + group, a + first, of_group(lda), b + first,
                       of_group(ldb), beta + group, c + first, of_group(ldc),
                       of_group(group_size)});
        first += read.at(group_size, group);
    }
}

/// cblas_sgemm_batch_strided and its kin.
template <typename T, Integers kIntegers>
[[gnu::always_inline]] inline void cblas_gemm_batch_strided(
    const Original& original, int layout, int transa, int transb, int64_t m, int64_t n, int64_t k,
    T alpha, const T* a, int64_t lda, int64_t step_a, const T* b, int64_t ldb,
    int64_t step_b, T beta, T* c, int64_t ldc, int64_t step_c, int64_t count) {
    const Reader<kIntegers> read(original);
    if (!original.function) {
        for (int64_t i = 0; i < read(count); ++i) {
            single_gemm<T, kIntegers>(original, layout, transa, transb, m, n, k, alpha,
                                   a + i * read(step_a), lda, b + i * read(step_b), ldb, beta,
                                   c + i * read(step_c), ldc);
        }
        return;
    }
    const Layout order(layout);
    const bool row_major = order.row_major;
    const int ta = order.transposed(transa), tb = order.transposed(transb);
    const Sizes sizes =
        row_major ? Sizes{tb, ta, read(n), read(m), read(k), read(ldb), read(lda), read(ldc)}
                  : Sizes{ta, tb, read(m), read(n), read(k), read(lda), read(ldb), read(ldc)};
    Verdict verdict = is_beneath(alpha, read(m), read(n), read(k), read(count))
                          ? Verdict::originals
                          : judge(sizes, read(count));
    if (verdict == Verdict::whets && (read(step_a) | read(step_b) | read(step_c)) < 0)
        verdict = unsupported();
    if (verdict != Verdict::whets) {
        const InsideOriginal inside(verdict == Verdict::unsupported);
        original.as<CblasGemmBatchStridedFunction<T>>()(layout, transa, transb, m, n, k, alpha, a,
                                                        lda, step_a, b, ldb, step_b, beta, c, ldc,
                                                        step_c, count);
        return;
    }
    Call call{key_of(original, sizes, alpha, beta, row_major), row_major ? b : a, row_major ? a : b,
              c};
    set_batch(call.key, read(count), read(step_a), read(step_b), read(step_c));
    serve(call);
}

}  // namespace
}  // namespace whet::blas

// The parameters of a calling convention, as declared and as passed on.
#define WHET_BLAS_DEFINE(operation, name, element, integers, parameters, ...)                    \
    extern "C" WHET_API void name parameters {                                                   \
        using namespace whet::blas;                                                              \
        whet::blas::operation<element, Integers::integers>(                                      \
            original_at(__builtin_return_address(0), Name::name), __VA_ARGS__);                  \
    }
#define WHET_BLAS_DEFINE_gemm(name, element, integers)                                           \
    WHET_BLAS_DEFINE(gemm, name, element, integers,                                              \
                     (const char* ta, const char* tb, const void* m, const void* n,              \
                      const void* k, const element* alpha, const element* a, const void* lda,    \
                      const element* b, const void* ldb, const element* beta, element* c,        \
                      const void* ldc),                                                          \
                     ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
#define WHET_BLAS_DEFINE_gemv(name, element, integers)                                           \
    WHET_BLAS_DEFINE(gemv, name, element, integers,                                              \
                     (const char* trans, const void* m, const void* n, const element* alpha,     \
                      const element* a, const void* lda, const element* x, const void* incx,     \
                      const element* beta, element* y, const void* incy),                        \
                     trans, m, n, alpha, a, lda, x, incx, beta, y, incy)
#define WHET_BLAS_DEFINE_cblas_gemm(name, element, integers)                                     \
    WHET_BLAS_DEFINE(cblas_gemm, name, element, integers,                                        \
                     (int layout, int ta, int tb, int64_t m, int64_t n, int64_t k, element alpha, \
                      const element* a, int64_t lda, const element* b, int64_t ldb, element beta, \
                      element* c, int64_t ldc),                                                  \
                     layout, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
#define WHET_BLAS_DEFINE_cblas_gemv(name, element, integers)                                     \
    WHET_BLAS_DEFINE(cblas_gemv, name, element, integers,                                        \
                     (int layout, int trans, int64_t m, int64_t n, element alpha, const element* a, \
                      int64_t lda, const element* x, int64_t incx, element beta, element* y,     \
                      int64_t incy),                                                             \
                     layout, trans, m, n, alpha, a, lda, x, incx, beta, y, incy)
#define WHET_BLAS_DEFINE_cblas_gemm_batch(name, element, integers)                               \
    WHET_BLAS_DEFINE(cblas_gemm_batch, name, element, integers,                                  \
                     (int layout, const int* ta, const int* tb, const void* m, const void* n,    \
                      const void* k, const element* alpha, const element** a, const void* lda,   \
                      const element** b, const void* ldb, const element* beta, element** c,      \
                      const void* ldc, int64_t groups, const void* group_size),                  \
                     layout, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, groups,       \
                     group_size)
#define WHET_BLAS_DEFINE_cblas_gemm_batch_strided(name, element, integers)                       \
    WHET_BLAS_DEFINE(cblas_gemm_batch_strided, name, element, integers,                          \
                     (int layout, int ta, int tb, int64_t m, int64_t n, int64_t k, element alpha, \
                      const element* a, int64_t lda, int64_t step_a, const element* b, int64_t ldb, \
                      int64_t step_b, element beta, element* c, int64_t ldc, int64_t step_c,     \
                      int64_t count),                                                            \
                     layout, ta, tb, m, n, k, alpha, a, lda, step_a, b, ldb, step_b, beta, c,    \
                     ldc, step_c, count)

#define WHET_BLAS_EXPORT(operation, name, element, integers)                                     \
    WHET_BLAS_DEFINE_##operation(name, element, integers)
WHET_BLAS_NAMES(WHET_BLAS_EXPORT)
