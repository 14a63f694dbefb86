// SPDX-License-Identifier: Apache-2.0
// A program for `whet bench app`: answers each line with whether a product of as many rows as the line has
// characters is right. Built on the system's OpenBLAS; knows nothing of Whet.
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kMostRows = 64, kDepth = 256, kColumns = 640 };
static float a[kMostRows * kDepth], b[kColumns * kDepth], c[kMostRows * kColumns];

int main(void) {
    for (int i = 0; i < kMostRows * kDepth; ++i) a[i] = (float)(i % 17 - 8) / 8;
    for (int i = 0; i < kColumns * kDepth; ++i) b[i] = (float)(i % 13 - 6) / 8;
    char line[4096];
    while (fgets(line, sizeof(line), stdin)) {
        const int rows = (int)strcspn(line, "\n") % kMostRows + 1;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, kColumns, kDepth, 1.0f, a, kDepth, b, kDepth, 0.0f, c,
                    kColumns);
        double worst = 0;
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < kColumns; ++j) {
                double sum = 0;
                for (int k = 0; k < kDepth; ++k) sum += (double)a[i * kDepth + k] * b[j * kDepth + k];
                worst = fmax(worst, fabs(sum - c[i * kColumns + j]));
            }
        printf("%s\n", worst < 1e-3 ? "right" : "wrong");
        fflush(stdout);
        if (worst >= 1e-3) return 1;
    }
    return 0;
}
