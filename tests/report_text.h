/* SPDX-License-Identifier: Apache-2.0
 * The text of a report in a C program: `report("json", collect, NULL)` after clear_report(). */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char report_text[1 << 22];
static size_t report_size;

static inline void clear_report(void) { report_text[report_size = 0] = 0; }

static void collect(const char* text, size_t length, void* user) {
    (void)user;
    if (report_size + length >= sizeof report_text) {
        printf("a report of more than %zu bytes\n", sizeof report_text - 1);
        exit(3);
    }
    memcpy(report_text + report_size, text, length);
    report_size += length;
    report_text[report_size] = 0;
}
