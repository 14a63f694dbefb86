// SPDX-License-Identifier: Apache-2.0
// From raw arguments to sites, and from sites back to originals.
#include "integrations/blas/product.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
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

struct FrontSlot {
    Key key;
    whet_site* site = nullptr;
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
thread_local int original_depth __attribute__((tls_model("initial-exec"))) = 0;
thread_local const Library* background_library __attribute__((tls_model("initial-exec"))) = nullptr;

struct KeyHash {
    size_t operator()(const Key& key) const { return key.hash(); }
};

struct Known {
    std::mutex mutex;
    std::unordered_map<Key, whet_site*, KeyHash> sites;
};

Known& known() {
    static auto* const made = new Known;
    return *made;
}

int trans_code(uint8_t transposed) { return transposed ? kTrans : kNoTrans; }

void warn_without_original() {
    static std::atomic<bool> said{false};
    if (said.exchange(true)) return;
    static constexpr char kLine[] =
        "whet level=warning topic=blas event=\"no BLAS behind libwhet_blas.so: Whet's own loops "
        "answer\"\n";
    if (::write(STDERR_FILENO, kLine, sizeof kLine - 1) < 0) return;
}

/// The plain loops, column-major; beta = 0 does not read c.
void plain_product(const Key& key, const float* a, const float* b, float* c) {
    for (int64_t j = 0; j < key.n; ++j) {
        for (int64_t i = 0; i < key.m; ++i) {
            float sum = 0;
            for (int64_t p = 0; p < key.k && key.alpha != 0; ++p) {
                sum += (key.transa ? a[p + i * key.lda] : a[i + p * key.lda]) *
                       (key.transb ? b[j + p * key.ldb] : b[p + j * key.ldb]);
            }
            float& out = c[i + j * key.ldc];
            out = key.beta == 0 ? key.alpha * sum : key.alpha * sum + key.beta * out;
        }
    }
}

void run_cblas(const Key& key, const float* a, const float* b, float* c) {
    if (key.row_major) {
        key.library->cblas_sgemm(kRowMajor, trans_code(key.transb), trans_code(key.transa), key.n,
                                 key.m, key.k, key.alpha, b, key.ldb, a, key.lda, key.beta, c,
                                 key.ldc);
    } else {
        key.library->cblas_sgemm(kColMajor, trans_code(key.transa), trans_code(key.transb), key.m,
                                 key.n, key.k, key.alpha, a, key.lda, b, key.ldb, key.beta, c,
                                 key.ldc);
    }
}

void run_batch(const Key& key, const float** a, const float** b, float** c) {
    const int ta = trans_code(key.transa), tb = trans_code(key.transb);
    if (key.row_major) {
        key.library->cblas_sgemm_batch(kRowMajor, &tb, &ta, &key.n, &key.m, &key.k, &key.alpha, b,
                                       &key.ldb, a, &key.lda, &key.beta, c, &key.ldc, 1,
                                       &key.batch);
    } else {
        key.library->cblas_sgemm_batch(kColMajor, &ta, &tb, &key.m, &key.n, &key.k, &key.alpha, a,
                                       &key.lda, b, &key.ldb, &key.beta, c, &key.ldc, 1,
                                       &key.batch);
    }
}

void fallback(void* user) { run_original(*static_cast<const Call*>(user)); }

/// The original in the background: Whet's own buffers, one thread.
void background(const whet_op*, void* const* operands, void* context) {
    const Key& key = *static_cast<const Key*>(context);
    if (background_library != key.library) {
        background_library = key.library;
        if (key.library->omp_set_num_threads)
            key.library->omp_set_num_threads(1);  // of this thread only
    }
    Call call{key, static_cast<const float*>(operands[WHET_B]),
              static_cast<const float*>(operands[WHET_A]), static_cast<float*>(operands[WHET_DST])};
    std::vector<const float*> a, b;
    std::vector<float*> c;
    if (key.entry == Entry::cblas_sgemm_batch) {
        for (int64_t i = 0; i < key.batch; ++i) {
            a.push_back(call.a + i * key.step_a);
            b.push_back(call.b + i * key.step_b);
            c.push_back(call.c + i * key.step_c);
        }
        call.a_array = a.data();
        call.b_array = b.data();
        call.c_array = c.data();
    }
    run_original(call);
}

/// The arguments that the reference BLAS would refuse: the original then says so, as it always did.
bool is_valid(const Key& key) {
    const int rows_a = key.transa ? key.k : key.m, rows_b = key.transb ? key.n : key.k;
    return key.m > 0 && key.n > 0 && key.k > 0 && key.lda >= rows_a && key.ldb >= rows_b &&
           key.ldc >= key.m;
}

/// The operation of a key. Column-major c = op(a) op(b) is row-major dst = op(b)' op(a)' with unit
/// stride along N.
whet_status describe(const Key& key, whet_op* op) {
    const int64_t batch = key.batch;
    const int64_t c_extents[] = {batch, key.n, key.m}, b_extents[] = {batch, key.n, key.k},
                  a_extents[] = {batch, key.k, key.m};
    const int64_t c_strides[] = {key.step_c, key.ldc, 1};
    const int64_t b_strides[] = {key.step_b, key.transb ? 1 : key.ldb, key.transb ? key.ldb : 1};
    const int64_t a_strides[] = {key.step_a, key.transa ? 1 : key.lda, key.transa ? key.lda : 1};
    const int skip = key.entry == Entry::cblas_sgemm_batch ? 0 : 1;
    const whet_tensor c{nullptr, WHET_F32, 3 - skip, c_extents + skip, c_strides + skip};
    const whet_tensor left{nullptr, WHET_F32, 3 - skip, b_extents + skip, b_strides + skip};
    const whet_tensor right{nullptr, WHET_F32, 3 - skip, a_extents + skip, a_strides + skip};
    const whet_status status =
        whet_op_matmul(op, &c, &left, &right, nullptr, key.alpha, key.beta, WHET_EPILOGUE_NONE);
    if (status != WHET_OK) return status;
    if (key.frozen & 1) whet_op_set_frozen(op, WHET_B);
    if (key.frozen & 2) whet_op_set_frozen(op, WHET_A);
    return WHET_OK;
}

/// The site of a key, made when new; null: always the original.
whet_site* site_of(const Key& key) {
    Known& all = known();
    {
        std::lock_guard lock(all.mutex);
        const auto found = all.sites.find(key);
        if (found != all.sites.end()) return found->second;
        if (all.sites.size() >= kMostKeys) return nullptr;
    }
    whet_op op;
    whet_site* site = nullptr;
    if (!is_valid(key) || describe(key, &op) != WHET_OK || whet_site_get(&op, &site) != WHET_OK)
        site = nullptr;
    std::lock_guard lock(all.mutex);
    const auto [it, fresh] = all.sites.emplace(key, site);
    if (fresh && site)
        whet_site_set_original(site, background, const_cast<Key*>(&it->first));  // nodes never move
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

size_t bytes_of(int rows, int columns, int ld) {
    return (static_cast<size_t>(columns - 1) * static_cast<size_t>(ld) +
            static_cast<size_t>(rows)) *
           sizeof(float);
}

void fill_frozen(Call& call) {
    Key& key = call.key;
    const size_t a_bytes =
        key.transa ? bytes_of(key.k, key.m, key.lda) : bytes_of(key.m, key.k, key.lda);
    const size_t b_bytes =
        key.transb ? bytes_of(key.n, key.k, key.ldb) : bytes_of(key.k, key.n, key.ldb);
    if (is_frozen(call.a, a_bytes)) key.frozen |= 1;
    if (is_frozen(call.b, b_bytes)) key.frozen |= 2;
}

}  // namespace

bool inside_original() noexcept { return original_depth > 0; }

void run_original(const Call& call) {
    const Key& key = call.key;
    ++original_depth;
    if (key.entry == Entry::sgemm && key.library->sgemm) {
        const char ta = key.transa ? 'T' : 'N', tb = key.transb ? 'T' : 'N';
        key.library->sgemm(&ta, &tb, &key.m, &key.n, &key.k, &key.alpha, call.a, &key.lda, call.b,
                           &key.ldb, &key.beta, call.c, &key.ldc);
    } else if (key.entry == Entry::cblas_sgemm && key.library->cblas_sgemm) {
        run_cblas(key, call.a, call.b, call.c);
    } else if (key.entry == Entry::cblas_sgemm_batch && key.library->cblas_sgemm_batch) {
        run_batch(key, call.a_array, call.b_array, call.c_array);
    } else {
        warn_without_original();
        if (key.entry != Entry::cblas_sgemm_batch)
            plain_product(key, call.a, call.b, call.c);
        else
            for (int i = 0; i < key.batch; ++i)
                plain_product(key, call.a_array[i], call.b_array[i], call.c_array[i]);
    }
    --original_depth;
}

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
    if (!call.key.library->one_thread()) {
        run_original(call);
        return;
    }
    if (call.key.batch == 1 && whet_frozen_generation() != 0) fill_frozen(call);
    Front* const mine = front ? front : make_front();
    whet_site* site = nullptr;
    if (mine) {
        FrontSlot& slot = mine->slots[call.key.hash() >> 58];
        if (!slot.filled || !(slot.key == call.key)) slot = {call.key, site_of(call.key), true};
        site = slot.site;
    }
    if (!site) {
        run_original(call);
        return;
    }
    void* const operands[3] = {call.c, const_cast<float*>(call.b), const_cast<float*>(call.a)};
    whet_site_call(site, operands, 3, fallback, &call);
}

}  // namespace whet::blas
