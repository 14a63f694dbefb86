// SPDX-License-Identifier: Apache-2.0
// A product as BLAS names it, in column-major form, and the thread's front: raw arguments -> site.
#pragma once

#include <bit>
#include <cstdint>

#include <whet/whet.h>

#include "integrations/blas/caller.hpp"

namespace whet::blas {

enum : int { kRowMajor = 101, kColMajor = 102, kNoTrans = 111, kTrans = 112, kConjTrans = 113 };

inline uint64_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }
template <typename T>
T scalar(uint64_t bits) {
    if constexpr (sizeof(T) == sizeof(float))
        return std::bit_cast<T>(static_cast<uint32_t>(bits));
    else
        return std::bit_cast<T>(bits);
}

/// What decides the site. Column-major: a row-major call has its sides swapped. A product of a
/// matrix with a vector is c[m, 1] = op(a)[m, k] b[k, 1], with the increments of the vectors as ldb
/// and ldc.
struct Key {
    const Original* original = nullptr;
    int32_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
    uint64_t alpha = 0, beta = 0;    ///< the bits of the caller's scalars: bits_of, scalar
    uint8_t transa = 0, transb = 0;  ///< 1: transposed
    uint8_t row_major = 0;  ///< how the caller said it; the original is called the same way
    uint8_t frozen = 0;     ///< bit 0: a, bit 1: b
    int32_t batch = 1;
    int32_t threads = 1;                         ///< of the original
    int64_t step_a = 0, step_b = 0, step_c = 0;  ///< between the matrices of a batch, in elements

    bool is_vector() const {
        return original->operation == Operation::gemv ||
               original->operation == Operation::cblas_gemv;
    }
    bool is_f64() const { return original->f64; }
    size_t element_bytes() const { return is_f64() ? sizeof(double) : sizeof(float); }
    /// The stride of c along m.
    int64_t c_row_step() const { return is_vector() ? ldc : 1; }

    /// Field by field, without branches: wider loads would wait for the narrow stores that just
    /// filled the key.
    bool operator==(const Key& o) const {
        const uint32_t narrow =
            static_cast<uint32_t>((m ^ o.m) | (n ^ o.n) | (k ^ o.k) | (lda ^ o.lda) |
                                  (ldb ^ o.ldb) | (ldc ^ o.ldc) | (batch ^ o.batch) |
                                  (threads ^ o.threads) |
                                  (transa ^ o.transa) | (transb ^ o.transb) |
                                  (row_major ^ o.row_major) | (frozen ^ o.frozen));
        const int64_t steps = (step_a ^ o.step_a) | (step_b ^ o.step_b) | (step_c ^ o.step_c);
        const uint64_t scalars = (alpha ^ o.alpha) | (beta ^ o.beta);
        return (narrow == 0) & (steps == 0) & (scalars == 0) & (original == o.original);
    }
    uint64_t hash() const {
        const uint64_t x =
            (static_cast<uint64_t>(static_cast<uint32_t>(m)) << 32 | static_cast<uint32_t>(n)) *
            0x9e3779b97f4a7c15ull;
        const uint64_t y = (static_cast<uint64_t>(static_cast<uint32_t>(k)) << 32 |
                            static_cast<uint32_t>(lda + 7 * ldb + 31 * ldc + frozen * 3 + transa)) *
                           0xe7037ed1a0b428dbull;
        return x ^ (y >> 7) ^ (y << 11);
    }
};

/// The data of one call.
struct Call {
    Key key;
    const void* a = nullptr;
    const void* b = nullptr;
    void* c = nullptr;
    /// cblas_gemm_batch only: the pointer arrays as given, of the caller's type.
    void* a_array = nullptr;
    void* b_array = nullptr;
    void* c_array = nullptr;
};

/// Products below this many multiplications (about 1.5 us on one core) go straight to the original.
/// Their gains are tenths of a microsecond, while a model's attention brings hundreds of such
/// shapes, whose first plans would keep the tuner from the products that matter: MiniLM has 141 of
/// them beside its six.
inline constexpr int64_t kTinyProduct = 128 * 1024;

/// The least product that is Whet's: kTinyProduct, or every one where none may differ by who serves
/// it.
inline int64_t least_product() {
    static const int64_t least = whet_is_invariant() ? 1 : kTinyProduct;
    return least;
}

/// Runs the original of `call`, or a plain loop where there is none (said once). Marks the thread,
/// so that a BLAS call inside the original goes straight on and is counted once.
void run_original(const Call& call);
/// Marks the calling thread as inside an original, when `really`, for as long as it lives.
class InsideOriginal {
public:
    explicit InsideOriginal(bool really) noexcept;
    ~InsideOriginal();
    InsideOriginal(const InsideOriginal&) = delete;
    InsideOriginal& operator=(const InsideOriginal&) = delete;

private:
    const bool really_;
};
/// Whether the calling thread is inside an original.
bool inside_original() noexcept;

/// Serves the call by its site when it is Whet's, else by the original. key.frozen is filled here.
/// The arguments are such that BLAS accepts them, or there is no original.
void serve(Call& call);

/// Whether [pointer, pointer + bytes) is frozen: remembered per thread, a few nanoseconds when
/// nothing changed.
bool is_frozen(const void* pointer, size_t bytes);

}  // namespace whet::blas
