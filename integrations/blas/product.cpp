// SPDX-License-Identifier: Apache-2.0
// From products to sites.
#include "integrations/blas/product.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

namespace whet::blas {
namespace {

constexpr size_t kFrontSlots = 64;    // per thread; shapes of a program's inner loop
constexpr size_t kFrozenSlots = 128;  // per thread: addresses whose answer is remembered
constexpr size_t kMostKeys = 32768;   // remembered by the process; later ones go to the original

/// What is known of a key. Without a site its calls go to the original, counted as `bypass`.
struct Place {
    whet_site* site = nullptr;
    whet_bypass bypass = WHET_BYPASS_UNSUPPORTED;
};

/// The bytes from an operand's first element to its last.
struct Spans {
    uint64_t a = 0, b = 0, c = 0;
};

struct FrontSlot {
    Key key;
    Place place;
    Spans spans;
    bool filled = false;
};

struct FrozenSlot {
    const void* pointer = nullptr;
    size_t bytes = 0;
    uint64_t generation = 0;
    bool frozen = false;
};

/// A thread's own memory, a few kilobytes; made at its first call, freed at its end.
struct Front {
    FrontSlot slots[kFrontSlots];
    FrozenSlot frozen[kFrozenSlots];
};

thread_local Front* front __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local const Original* background_original __attribute__((tls_model("initial-exec"))) =
    nullptr;

struct KeyHash {
    size_t operator()(const Key& key) const { return key.hash(); }
};

struct Known {
    std::mutex mutex;
    std::unordered_map<Key, Place, KeyHash> places;
};

Known& known();

void lock_known() { known().mutex.lock(); }
void unlock_known() { known().mutex.unlock(); }

/// Never destroyed; a child forked while another thread makes a site finds the mutex free.
Known& known() {
    static auto* const made = [] {
        pthread_atfork(lock_known, unlock_known, unlock_known);
        return new Known;
    }();
    return *made;
}

void fallback(void* user) { run_original(*static_cast<const Call*>(user)); }

/// The original in the background: Whet's own buffers, one thread.
void background(const whet_op*, void* const* operands, void* context) {
    const Key& key = *static_cast<const Key*>(context);
    if (background_original != key.original) {
        background_original = key.original;
        key.original->threads.set_one();
    }
    Call call{key, operands[WHET_B], operands[WHET_A], operands[WHET_DST]};
    std::vector<void*> a, b, c;
    if (key.original->operation == Operation::cblas_gemm_batch) {
        const auto bytes = static_cast<int64_t>(key.element_bytes());
        const auto moved = [](void* from, int64_t by) { return static_cast<char*>(from) + by; };
        for (int64_t i = 0; i < key.batch; ++i) {
            a.push_back(moved(operands[WHET_B], i * key.step_a * bytes));
            b.push_back(moved(operands[WHET_A], i * key.step_b * bytes));
            c.push_back(moved(operands[WHET_DST], i * key.step_c * bytes));
        }
        call.a_array = a.data();
        call.b_array = b.data();
        call.c_array = c.data();
    }
    run_original(call);
}

/// The operation of a key. Column-major c = op(a) op(b) is row-major dst = op(b)' op(a)' with unit
/// stride along N.
whet_status describe(const Key& key, whet_op* op) {
    const int64_t batch = key.batch;
    const int64_t c_extents[] = {batch, key.n, key.m}, b_extents[] = {batch, key.n, key.k},
                  a_extents[] = {batch, key.k, key.m};
    const int64_t c_strides[] = {key.step_c, key.ldc, key.c_row_step()};
    const int64_t b_strides[] = {key.step_b, key.transb ? 1 : key.ldb, key.transb ? key.ldb : 1};
    const int64_t a_strides[] = {key.step_a, key.transa ? 1 : key.lda, key.transa ? key.lda : 1};
    const int skip = batch > 1 ? 0 : 1;
    const whet_dtype type = key.is_f64() ? WHET_F64 : WHET_F32;
    const double alpha = key.is_f64() ? scalar<double>(key.alpha) : scalar<float>(key.alpha),
                 beta = key.is_f64() ? scalar<double>(key.beta) : scalar<float>(key.beta);
    const whet_tensor c{nullptr, type, 3 - skip, c_extents + skip, c_strides + skip};
    const whet_tensor left{nullptr, type, 3 - skip, b_extents + skip, b_strides + skip};
    const whet_tensor right{nullptr, type, 3 - skip, a_extents + skip, a_strides + skip};
    const whet_status status =
        whet_op_matmul(op, &c, &left, &right, nullptr, alpha, beta, WHET_EPILOGUE_NONE);
    if (status != WHET_OK) return status;
    if (key.threads > 1) whet_op_set_threads(op, key.threads);
    if (key.frozen & 1) whet_op_set_frozen(op, WHET_B);
    if (key.frozen & 2) whet_op_set_frozen(op, WHET_A);
    return WHET_OK;
}

/// The place of a key, made when new.
Place place_of(const Key& key) {
    Known& all = known();
    {
        std::lock_guard lock(all.mutex);
        const auto found = all.places.find(key);
        if (found != all.places.end()) return found->second;
        if (all.places.size() >= kMostKeys) return {nullptr, WHET_BYPASS_FULL};
    }
    whet_op op;
    Place place;
    if (describe(key, &op) == WHET_OK) {
        const whet_status status = whet_site_get(&op, &place.site);
        if (status != WHET_OK) place.site = nullptr;
        if (status == WHET_OUT_OF_BUDGET) place.bypass = WHET_BYPASS_FULL;
    }
    std::lock_guard lock(all.mutex);
    const auto [it, fresh] = all.places.emplace(key, place);
    // The background runs an original on one thread; of several, only live calls tell the time.
    if (fresh && place.site && key.threads == 1) {
        whet_site_set_original(place.site, background,
                               const_cast<Key*>(&it->first));  // nodes never move
    }
    return it->second;
}

pthread_key_t front_key;
pthread_once_t front_once = PTHREAD_ONCE_INIT;

void delete_front(void* ended) {
    front = nullptr;
    delete static_cast<Front*>(ended);
}

Front* make_front() {
    pthread_once(&front_once, [] { pthread_key_create(&front_key, delete_front); });
    front = new (std::nothrow) Front;
    pthread_setspecific(front_key, front);
    return front;
}

/// From the first to the last of `batch` matrices of rows x columns, stored column-major, in
/// elements.
uint64_t elements_of(int rows, int columns, int ld, int batch, int64_t step) {
    const int64_t last = int64_t{columns - 1} * ld + (rows - 1) + int64_t{batch - 1} * step;
    return static_cast<uint64_t>(last + 1);
}

Spans spans_of(const Key& key) {
    const auto stored = [&](uint8_t transposed, int rows, int columns, int ld, int64_t step) {
        return key.element_bytes() * (transposed ? elements_of(columns, rows, ld, key.batch, step)
                                                 : elements_of(rows, columns, ld, key.batch, step));
    };
    return {stored(key.transa, key.m, key.k, key.lda, key.step_a),
            stored(key.transb, key.k, key.n, key.ldb, key.step_b),
            stored(key.is_vector(), key.m, key.n, key.ldc, key.step_c)};
}

bool meet(const void* p, uint64_t p_bytes, const void* q, uint64_t q_bytes) {
    const auto first = reinterpret_cast<uintptr_t>(p), second = reinterpret_cast<uintptr_t>(q);
    return first < second + q_bytes && second < first + p_bytes;
}

void fill_frozen(Call& call) {
    Key& key = call.key;
    const Spans spans = spans_of(key);
    if (is_frozen(call.a, spans.a)) key.frozen |= 1;
    if (is_frozen(call.b, spans.b)) key.frozen |= 2;
}

void bypass(const Call& call, whet_bypass reason) {
    whet_count_bypass(reason);
    run_original(call);
}

}  // namespace

bool is_frozen(const void* pointer, size_t bytes) {
    const uint64_t generation = whet_frozen_generation();
    if (generation == 0) return false;
    Front* const mine = front ? front : make_front();
    if (!mine) return whet_is_frozen(pointer, bytes);
    FrozenSlot& slot =
        mine->frozen[(reinterpret_cast<uintptr_t>(pointer) >> 6) * 0x9e3779b97f4a7c15ull >> 57];
    if (slot.pointer != pointer || slot.generation != generation || slot.bytes != bytes) {
        slot = {pointer, bytes, generation, whet_is_frozen(pointer, bytes) != 0};
    }
    return slot.frozen;
}

void serve(Call& call) {
    if (!call.key.original->function) return run_original(call);
    const Threads& threads = call.key.original->threads;
    const int count = std::min(threads.count(), WHET_MAX_THREADS);
    if (count > 1) {
        // Threads that only the original can use are not replaced by one, unless every bit is to
        // be Whet's.
        if (!threads.shared() && !whet_is_invariant()) return bypass(call, WHET_BYPASS_THREADS);
        if (threads.shared()) call.key.threads = count;
    }
    if (call.key.batch == 1 && whet_frozen_generation() != 0) fill_frozen(call);
    Front* const mine = front ? front : make_front();
    if (!mine) return bypass(call, WHET_BYPASS_FULL);
    FrontSlot& slot = mine->slots[call.key.hash() >> 58];
    if (!slot.filled || !(slot.key == call.key))
        slot = {call.key, place_of(call.key), spans_of(call.key), true};
    // A result that is also an operand is undefined in every BLAS, but each has programs that rely
    // on what it does.
    if (!slot.place.site || meet(call.c, slot.spans.c, call.a, slot.spans.a) ||
        meet(call.c, slot.spans.c, call.b, slot.spans.b)) {
        return bypass(call, slot.place.bypass);
    }
    void* const operands[3] = {call.c, const_cast<void*>(call.b), const_cast<void*>(call.a)};
    if (call.key.threads == 1) {
        whet_site_call(slot.place.site, operands, 3, fallback, &call);
        return;
    }
    const whet_executor team{run_on_openmp, const_cast<Threads*>(&threads)};
    whet_site_call_on(slot.place.site, operands, 3, &team, fallback, &call);
}

}  // namespace whet::blas
