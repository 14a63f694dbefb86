/* SPDX-License-Identifier: Apache-2.0
 * A C program outside the tree: describes a product, calls its site, gets the right numbers. */
#include <stdio.h>
#include <string.h>
#include <whet/whet.h>

enum { kRows = 5, kColumns = 7, kDepth = 3 };

static float a[kRows * kDepth], b[kDepth * kColumns], c[kRows * kColumns];

static void multiply(float* dst) {
    for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) {
            dst[i * kColumns + j] = 0;
            for (int k = 0; k < kDepth; ++k)
                dst[i * kColumns + j] += a[i * kDepth + k] * b[k * kColumns + j];
        }
    }
}

static void fallback(void* user) { multiply(user); }

int main(void) {
    for (int i = 0; i < kRows * kDepth; ++i) a[i] = (float)(i % 5 - 2);
    for (int i = 0; i < kDepth * kColumns; ++i) b[i] = (float)(i % 7 - 3);
    const int64_t c_extents[] = {kRows, kColumns}, a_extents[] = {kRows, kDepth},
                  b_extents[] = {kDepth, kColumns};
    const whet_tensor c_tensor = {c, WHET_F32, 2, c_extents, NULL},
                      a_tensor = {a, WHET_F32, 2, a_extents, NULL},
                      b_tensor = {b, WHET_F32, 2, b_extents, NULL};
    whet_op op;
    whet_site* site = NULL;
    void* operands[] = {c, a, b};
    if (whet_op_matmul(&op, &c_tensor, &a_tensor, &b_tensor, NULL, 1, 0, WHET_EPILOGUE_NONE) !=
            WHET_OK ||
        whet_site_get(&op, &site) != WHET_OK ||
        whet_site_call(site, operands, 3, fallback, c) != WHET_OK) {
        fprintf(stderr, "whet: %s\n", whet_last_error());
        return 1;
    }
    float expected[kRows * kColumns];
    multiply(expected);
    return memcmp(c, expected, sizeof(expected)) == 0 ? 0 : 1;
}
