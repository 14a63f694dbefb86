// SPDX-License-Identifier: Apache-2.0
// For libraries whose threads may still run when the host exits: static objects are left alone,
// never destroyed.
//
// A forge in a thread cannot be joined in time (a compile takes what it takes), and destroying what
// it uses would crash the host at its end. Registrations of static destructors inside the library
// reach this function instead of libc's.

extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) {
    return 0;
}
