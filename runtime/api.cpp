// SPDX-License-Identifier: Apache-2.0
// The C ABI over the runtime: sites, promises, the table, reports.
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include <whet/whet.h>

#include "runtime/dispatch/last_error.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/runtime.hpp"
#include "runtime/tuner/tuner.hpp"

using namespace whet::runtime;
using whet::base::Code;
using whet::base::make_error;

namespace {

whet_status status_of(const whet::base::Result<void>& result) {
    return result ? WHET_OK : fail(result.error());
}

/// A thread's last operations as their callers wrote them, and their sites (handles are for ever).
struct OpFrontSlot {
    whet_op op{};
    whet_site* site = nullptr;
};
struct OpFront {
    static constexpr size_t kSlots = 16;
    OpFrontSlot slots[kSlots];
};
thread_local OpFront* op_front __attribute__((tls_model("initial-exec"))) = nullptr;

pthread_key_t op_front_key;
pthread_once_t op_front_once = PTHREAD_ONCE_INIT;

void delete_op_front(void* front) {
    op_front = nullptr;
    delete static_cast<OpFront*>(front);
}

/// A thread's front is made at its first look-up and goes with the thread: about 9 KB.
OpFront* make_op_front() {
    pthread_once(&op_front_once, [] { pthread_key_create(&op_front_key, delete_op_front); });
    op_front = new (std::nothrow) OpFront;
    pthread_setspecific(op_front_key, op_front);
    return op_front;
}

size_t quick_slot(const whet_op& op) {
    const whet_view& dst = op.operands[WHET_DST];
    const auto mix =
        static_cast<uint64_t>(dst.extents[0] * 31 + dst.extents[1] * 17 + dst.extents[2] * 7 +
                              op.operands[WHET_A].extents[1] * 3 + op.kind + op.frozen);
    return mix * 0x9e3779b97f4a7c15ull >> 60;
}

/// Applies a change of the switches at once.
template <typename Change>
whet_status change(Change what) {
    Runtime& r = runtime();
    what(r);
    r.apply_switches();
    return WHET_OK;
}

}  // namespace

extern "C" {

const char* whet_version(void) { return WHET_VERSION_TEXT; }

whet_status whet_site_get(const whet_op* op, whet_site** site) {
    if (!op || !site)
        return fail(make_error(Code::invalid_argument,
                               "got null, expected an operation and a place for the site"));
    OpFront* const front = op_front ? op_front : make_op_front();
    OpFrontSlot* const slot = front ? &front->slots[quick_slot(*op)] : nullptr;
    if (slot && slot->site && std::memcmp(&slot->op, op, sizeof *op) == 0) {
        *site = slot->site;
        return WHET_OK;
    }
    Runtime& r = runtime();
    if (auto checked = whet::runtime::check_operation(*op); !checked) return fail(checked.error());
    const auto found = r.sites.find_or_make(canonical(*op));
    if (!found) return fail(found.error());
    *site = *found;
    if (slot) *slot = {*op, *found};
    return WHET_OK;
}

whet_status whet_site_set_original(whet_site* site, whet_original original, void* context) {
    if (!site) return fail(make_error(Code::invalid_argument, "site: got null"));
    site->original_context.store(context, std::memory_order_release);
    site->original.store(original, std::memory_order_release);
    return WHET_OK;
}

int whet_is_invariant(void) {
    return runtime().options.numerics == whet::base::Numerics::invariant;
}

void whet_count_bypass(whet_bypass reason) {
    if (reason >= WHET_BYPASS_UNSUPPORTED && reason <= WHET_BYPASS_FULL)
        runtime().bypassed[reason].fetch_add(1, std::memory_order_relaxed);
}

whet_status whet_freeze(const void* pointer, size_t bytes) {
    return status_of(runtime().frozen.freeze(pointer, bytes));
}
whet_status whet_thaw(const void* pointer) { return status_of(runtime().frozen.thaw(pointer)); }

uint64_t whet_frozen_generation(void) {
    Runtime* const r = runtime_if_made();
    return r ? r->frozen.generation() : 0;
}

int whet_is_frozen(const void* pointer, size_t bytes) {
    Runtime* const r = runtime_if_made();
    return r && r->frozen.contains(pointer, bytes) ? 1 : 0;
}

whet_status whet_enable(void) {
    return change([](Runtime& r) { r.enabled = true; });
}
whet_status whet_disable(void) {
    return change([](Runtime& r) { r.enabled = false; });
}
whet_status whet_pause(void) {
    return change([](Runtime& r) { r.paused = true; });
}
whet_status whet_resume(void) {
    return change([](Runtime& r) { r.paused = false; });
}
whet_status whet_pin(void) {
    return change([](Runtime& r) { r.pinned = true; });
}
whet_status whet_drain(double seconds) { return status_of(runtime().tuner->drain(seconds)); }

whet_status whet_report(const char* format, whet_write write, void* user) {
    if (!format || !write)
        return fail(
            make_error(Code::invalid_argument, "got null, expected a format and a function"));
    const auto text = print_report(runtime().tuner->report(), format);
    if (!text) return fail(text.error());
    write(text->data(), text->size(), user);
    return WHET_OK;
}

whet_status whet_text_call(const char* request, whet_write write, void* user) {
    if (!request || !write)
        return fail(
            make_error(Code::invalid_argument, "got null, expected a request and a function"));
    if (auto asked = runtime().tuner->text_call(request, write, user); !asked)
        return fail(asked.error());
    return WHET_OK;
}

whet_status whet_test_plant(whet_site* site, const void* text_or_blob, size_t bytes,
                            int skip_static) {
    if (!site || !text_or_blob)
        return fail(
            make_error(Code::invalid_argument, "got null, expected a site and a candidate"));
    return status_of(runtime().tuner->plant(site, text_or_blob, bytes, skip_static != 0));
}

}  // extern "C"
