// SPDX-License-Identifier: Apache-2.0
// The one table of the exported BLAS names. Everything that exists once per name comes from it: the
// exported functions, the originals of a caller's library, their integers.
//
// A family is how one BLAS spells its names:
//   sgemm_, cblas_sgemm                   everybody; Debian's and MKL's 64-bit builds too, so that
//                                         the width of the integers is the library's
//   sgemm_64_, cblas_sgemm64_             OpenBLAS with 64-bit integers (SYMBOLSUFFIX), Julia
//   cblas_sgemm_64                        64-bit names of MKL and of the reference BLAS; their
//                                         Fortran names are those of the line above
//   scipy_sgemm_, scipy_cblas_sgemm       OpenBLAS in SciPy's wheels
//   scipy_sgemm_64_, scipy_cblas_sgemm64_ OpenBLAS in NumPy's wheels
// Every family has its names twice: s for f32, d for f64.
// MKL's names without an underscore (sgemm, SGEMM) are not here: programs have functions of such
// names that are no BLAS.
#pragma once

#include <cstddef>
#include <cstdint>

namespace whet::blas {

/// What a name computes and how its arguments are passed.
enum class Operation : uint8_t {
    gemm,                      ///< Fortran: everything by address
    gemv,                      ///< Fortran
    cblas_gemm,                ///< C: scalars by value, layout first
    cblas_gemv,                ///< C
    cblas_gemm_batch,          ///< C: groups of products, by arrays of pointers
    cblas_gemm_batch_strided,  ///< C: products that lie evenly
};

/// The width of a name's integers.
enum class Integers : uint8_t {
    by_library,  ///< what the library behind the name was built with
    narrow,      ///< 32 bits (LP64)
    wide,        ///< 64 bits (ILP64)
};

// X(operation, name, element, integers) for the names of one family.
#define WHET_BLAS_FORTRAN(X, prefix, letter, suffix, element, integers) \
    X(gemm, prefix##letter##gemm##suffix, element, integers)            \
    X(gemv, prefix##letter##gemv##suffix, element, integers)
#define WHET_BLAS_C(X, prefix, letter, suffix, element, integers)                        \
    X(cblas_gemm, prefix##cblas_##letter##gemm##suffix, element, integers)               \
    X(cblas_gemv, prefix##cblas_##letter##gemv##suffix, element, integers)               \
    X(cblas_gemm_batch, prefix##cblas_##letter##gemm_batch##suffix, element, integers)   \
    X(cblas_gemm_batch_strided, prefix##cblas_##letter##gemm_batch_strided##suffix, element, \
      integers)

#define WHET_BLAS_NAMES_OF(X, letter, element)                   \
    WHET_BLAS_FORTRAN(X, , letter, _, element, by_library)       \
    WHET_BLAS_C(X, , letter, , element, by_library)              \
    WHET_BLAS_FORTRAN(X, , letter, _64_, element, wide)          \
    WHET_BLAS_C(X, , letter, 64_, element, wide)                 \
    WHET_BLAS_C(X, , letter, _64, element, wide)                 \
    WHET_BLAS_FORTRAN(X, scipy_, letter, _, element, narrow)     \
    WHET_BLAS_C(X, scipy_, letter, , element, narrow)            \
    WHET_BLAS_FORTRAN(X, scipy_, letter, _64_, element, wide)    \
    WHET_BLAS_C(X, scipy_, letter, 64_, element, wide)
#define WHET_BLAS_NAMES(X)           \
    WHET_BLAS_NAMES_OF(X, s, float)  \
    WHET_BLAS_NAMES_OF(X, d, double)

/// One enumerator per exported name, spelled like it.
enum class Name : uint8_t {
#define WHET_BLAS_ENUMERATOR(operation, name, element, integers) name,
    WHET_BLAS_NAMES(WHET_BLAS_ENUMERATOR)
#undef WHET_BLAS_ENUMERATOR
};

struct NameRow {
    const char* text;
    Operation operation;
    size_t element_bytes;  ///< 4: f32, 8: f64
    Integers integers;
};

/// By Name.
inline constexpr NameRow kNames[] = {
#define WHET_BLAS_ROW(operation, name, element, integers) \
    {#name, Operation::operation, sizeof(element), Integers::integers},
    WHET_BLAS_NAMES(WHET_BLAS_ROW)
#undef WHET_BLAS_ROW
};
inline constexpr size_t kNameCount = sizeof kNames / sizeof *kNames;

/// The row of the same family's cblas_gemm, of a row of WHET_BLAS_C.
constexpr const NameRow& single_of(const NameRow& row) {
    return *(&row - (static_cast<int>(row.operation) - static_cast<int>(Operation::cblas_gemm)));
}
constexpr bool are_singles_found() {
    for (const NameRow& row : kNames) {
        if (row.operation >= Operation::cblas_gemm &&
            single_of(row).operation != Operation::cblas_gemm)
            return false;
    }
    return true;
}
static_assert(are_singles_found(), "WHET_BLAS_C lists its names in the order of Operation");

}  // namespace whet::blas
