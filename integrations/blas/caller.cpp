// SPDX-License-Identifier: Apache-2.0
// Finding the original inside the caller's own library.
#include "integrations/blas/caller.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace whet::blas {
namespace {

/// The load address of the object that holds an address; null when unknown.
const void* object_of(const void* address) {
    Dl_info info{};
    return ::dladdr(address, &info) ? info.dli_fbase : nullptr;
}

const void* own_object() {
    static const void* const own = object_of(reinterpret_cast<const void*>(&library_at));
    return own;
}

/// The definition that the caller's library would have bound to without us.
template <typename Function>
Function original_of(void* handle, const char* name) {
    void* found = handle ? ::dlsym(handle, name) : nullptr;
    if (!found || object_of(found) == own_object()) found = ::dlsym(RTLD_NEXT, name);
    if (found && object_of(found) == own_object()) found = nullptr;
    return reinterpret_cast<Function>(found);
}

template <typename Function>
Function optional(void* handle, const char* name) {
    return handle ? reinterpret_cast<Function>(::dlsym(handle, name)) : nullptr;
}

Library make_library(const void* return_address) {
    Dl_info info{};
    void* handle = nullptr;
    if (::dladdr(return_address, &info) && info.dli_fname)
        handle = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) handle = ::dlopen(nullptr, RTLD_LAZY);  // the program itself
    Library library;
    library.sgemm = original_of<SgemmFunction>(handle, "sgemm_");
    library.cblas_sgemm = original_of<CblasSgemmFunction>(handle, "cblas_sgemm");
    library.cblas_sgemm_batch = original_of<CblasSgemmBatchFunction>(handle, "cblas_sgemm_batch");
    library.openblas_get_num_threads = optional<int (*)()>(handle, "openblas_get_num_threads");
    library.omp_get_max_threads = optional<int (*)()>(handle, "omp_get_max_threads");
    library.omp_in_parallel = optional<int (*)()>(handle, "omp_in_parallel");
    library.omp_set_num_threads = optional<void (*)(int)>(handle, "omp_set_num_threads");
    library.mkl_get_max_threads = optional<int (*)()>(handle, "MKL_Get_Max_Threads");
    return library;
}

/// Call sites seen so far: open addressing, filled under a mutex, read without; full at half: then
/// the map answers.
struct AddressTable {
    static constexpr size_t kSlots = 1024;
    struct Slot {
        std::atomic<const void*> address{nullptr};
        std::atomic<const Library*> library{nullptr};
    };
    Slot slots[kSlots];
    size_t used = 0;
    std::mutex mutex;
    std::map<const void*, const Library*> by_object;

    static size_t first_slot(const void* address) {
        return (reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15ull >> 40) % kSlots;
    }
    const Library* find(const void* address) const {
        for (size_t at = first_slot(address), probes = 0; probes < kSlots;
             at = (at + 1) % kSlots, ++probes) {
            const void* const seen = slots[at].address.load(std::memory_order_acquire);
            if (seen == address) return slots[at].library.load(std::memory_order_relaxed);
            if (!seen) return nullptr;
        }
        return nullptr;
    }
};

AddressTable& table() {
    static auto* const made =
        new AddressTable;  // never destroyed: calls may come while the program ends
    return *made;
}

}  // namespace

const Library* library_at(const void* return_address) {
    AddressTable& known = table();
    if (const Library* const found = known.find(return_address)) return found;
    const void* const object = object_of(return_address);
    std::lock_guard lock(known.mutex);
    if (const Library* const found = known.find(return_address)) return found;
    const Library*& library = known.by_object[object];
    if (!library) library = new Library(make_library(return_address));
    if (known.used < AddressTable::kSlots / 2) {
        size_t at = AddressTable::first_slot(return_address);
        while (known.slots[at].address.load(std::memory_order_relaxed))
            at = (at + 1) % AddressTable::kSlots;
        known.slots[at].library.store(library, std::memory_order_relaxed);
        known.slots[at].address.store(return_address, std::memory_order_release);
        ++known.used;
    }
    return library;
}

}  // namespace whet::blas
