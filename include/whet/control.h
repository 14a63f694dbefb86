/* SPDX-License-Identifier: Apache-2.0
 * The control page: shared memory through which `whet run` watches and steers the processes it
 * started.
 *
 * The parent makes the page (a memory file), and names it to its children by WHET_CONTROL, a path.
 * Every process that loads Whet claims a slot by exchanging its pid into a free one, writes its
 * counters and its report there, and looks at the command words when its background thread wakes.
 * All fields are read and written by 32 and 64 bit atomic operations. Each text has two places and
 * a number: the newest is in place number % 2; the next one is written to the other place, then the
 * number grows. So a process that ends at any moment, even while it writes, leaves its last whole
 * report behind; a reader whose number has changed meanwhile reads again.
 * The layout is private to one version of Whet: `magic` and `version` must be equal.
 */
#ifndef WHET_CONTROL_H
#define WHET_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#define WHET_CONTROL_MAGIC UINT64_C(0x65676170746568f7)
#define WHET_CONTROL_VERSION 2u
/* Enough for a tree of worker processes; later ones run unwatched. The file is sparse. */
#define WHET_CONTROL_SLOTS 64
#define WHET_CONTROL_HEADER_BYTES 4096
#define WHET_CONTROL_SLOT_BYTES (1 << 20)
#define WHET_CONTROL_ACTIVITY_BYTES 128

typedef enum whet_control_command {
    WHET_CONTROL_NONE = 0,
    WHET_CONTROL_ENABLE,  /* whet_enable */
    WHET_CONTROL_DISABLE, /* whet_disable */
    WHET_CONTROL_PAUSE,   /* whet_pause */
    WHET_CONTROL_RESUME,  /* whet_resume */
    WHET_CONTROL_PIN,     /* whet_pin */
    WHET_CONTROL_DRAIN,   /* publish a report, then acknowledge */
    WHET_CONTROL_REPORT,  /* publish a report now, then acknowledge */
    WHET_CONTROL_CONTINUE /* search on where the search is settled */
} whet_control_command;

/* A command word: a number that grows by one with every command of the page, above the command's
 * eight bits. */
#define WHET_CONTROL_WORD(sequence, command) (((uint64_t)(sequence) << 8) | (uint64_t)(command))

typedef struct whet_control_header {
    uint64_t magic;
    uint32_t version;
    uint32_t slot_count;
    uint64_t sequence; /* of the last command given */
    uint64_t command;  /* word for every process, also for those that start later */
} whet_control_header;

typedef struct whet_control_slot {
    int32_t pid;           /* 0: free */
    uint32_t ended;        /* 1: the process has written its last report */
    uint64_t command;      /* word for this process; the later of the two words counts */
    uint64_t acknowledged; /* the last word that was carried out */
    /* Counters since the process began. */
    uint64_t sites;         /* known */
    uint64_t calls;         /* seen */
    uint64_t served_calls;  /* answered by a plan of Whet */
    uint64_t trials;        /* candidates timed */
    uint64_t compiles;      /* microkernels built */
    uint64_t published;     /* plans that went live */
    uint64_t rejected;      /* candidates refused by a check */
    uint64_t tuning_cpu_ns; /* CPU time of tuning, helper included */
    uint64_t saved_ns;      /* estimated time that served calls took less than the original's */
    uint64_t activity_number;
    char activity[2][WHET_CONTROL_ACTIVITY_BYTES]; /* what tuning does now; C strings */
    uint64_t report_number;
    uint64_t report_bytes[2];
    char reports[]; /* two places of WHET_CONTROL_TEXT_BYTES each: the report as JSON */
} whet_control_slot;

#define WHET_CONTROL_TEXT_BYTES ((WHET_CONTROL_SLOT_BYTES - sizeof(whet_control_slot)) / 2)

#endif
