// SPDX-License-Identifier: Apache-2.0
// Finding the originals inside the caller's own library.
#include "integrations/blas/caller.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace whet::blas {
namespace {

/// One library that calls us; an original is null until its name is first called from there.
struct Library {
    void* handle = nullptr;
    std::atomic<const Original*> originals[kNameCount] = {};
};

/// The load address of the object that holds an address; null when unknown.
const void* object_of(const void* address) {
    Dl_info info{};
    return ::dladdr(address, &info) ? info.dli_fbase : nullptr;
}

const void* own_object() {
    static const void* const own = object_of(reinterpret_cast<const void*>(&original_at));
    return own;
}

/// A handle of the object that holds an address; of the program and all that it was linked with
/// where the loader knows no other.
void* handle_of(const void* address) {
    Dl_info info{};
    void* handle = nullptr;
    if (::dladdr(address, &info) && info.dli_fname)
        handle = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return handle ? handle : ::dlopen(nullptr, RTLD_LAZY);
}

bool is_foreign(const void* found) { return found && object_of(found) != own_object(); }

/// The first definition of `name` among everything that is loaded. Needed for callers whose library
/// does not depend on a BLAS: those that got the address of a function that ends by jumping into
/// the BLAS (scikit-learn by way of SciPy's cython_blas).
void* search_everywhere(const char* name) {
    std::vector<std::string> paths;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* list) {
            if (info->dlpi_name && *info->dlpi_name)
                static_cast<std::vector<std::string>*>(list)->emplace_back(info->dlpi_name);
            return 0;
        },
        &paths);
    for (const std::string& path : paths) {
        void* const handle = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
        if (!handle) continue;
        void* const found = ::dlsym(handle, name);
        if (is_foreign(found)) return found;  // the handle is kept: its object must stay
        ::dlclose(handle);
    }
    return nullptr;
}

/// The definition that the caller's library would have bound to without us.
void* find_function(void* caller, const char* name) {
    void* found = ::dlsym(caller, name);
    if (!is_foreign(found)) found = ::dlsym(RTLD_NEXT, name);
    return is_foreign(found) ? found : search_everywhere(name);
}

/// A function of the library `handle`, or of what it needs, under the first of `names` that exists.
template <typename Function>
Function first_of(void* handle, std::initializer_list<const char*> names) {
    for (const char* const name : names) {
        if (void* const found = ::dlsym(handle, name))
            return reinterpret_cast<Function>(found);
    }
    return nullptr;
}

/// Whether a BLAS that does not say so in its names was built with 64-bit integers: by what it says
/// itself, else by its file's name, which distributions end in 64 (libblas64.so.3, libblis64.so.4)
/// and MKL in ilp64.
bool has_wide_integers(void* provider, const void* function) {
    if (const auto config = first_of<const char* (*)()>(
            provider, {"openblas_get_config", "openblas_get_config64_", "scipy_openblas_get_config",
                       "scipy_openblas_get_config64_"})) {
        return std::strstr(config(), "USE64BITINT") != nullptr;
    }
    if (const auto bits = first_of<int64_t (*)()>(provider, {"bli_info_get_blas_int_type_size"}))
        return bits() == 64;
    Dl_info info{};
    if (!::dladdr(function, &info) || !info.dli_fname) return false;
    const char* const slash = std::strrchr(info.dli_fname, '/');
    const char* const file = slash ? slash + 1 : info.dli_fname;
    if (std::strstr(file, "mkl_rt")) {  // MKL's one library asks the environment
        const char* const layer = std::getenv("MKL_INTERFACE_LAYER");
        return layer && std::strstr(layer, "ILP64");
    }
    for (const char* const mark : {"blas64", "blis64", "ilp64"}) {
        if (std::strstr(file, mark)) return true;
    }
    return false;
}

Threads threads_of(void* provider, void* caller) {
    Threads threads;
    threads.openblas_get_num_threads = first_of<int (*)()>(
        provider, {"openblas_get_num_threads", "openblas_get_num_threads64_",
                   "scipy_openblas_get_num_threads", "scipy_openblas_get_num_threads64_"});
    threads.omp_get_max_threads = first_of<int (*)()>(caller, {"omp_get_max_threads"});
    threads.omp_in_parallel = first_of<int (*)()>(caller, {"omp_in_parallel"});
    threads.omp_set_num_threads = first_of<void (*)(int)>(caller, {"omp_set_num_threads"});
    threads.mkl_get_max_threads = first_of<int (*)()>(provider, {"MKL_Get_Max_Threads"});
    return threads;
}

const Original* make_original(void* caller, const NameRow& row) {
    auto* const original = new Original;
    original->operation = row.operation;
    original->wide_integers = row.integers == Integers::wide;
    original->function = find_function(caller, row.text);
    if (!original->function) {
        if (row.operation >= Operation::cblas_gemm_batch) {
            original->single = make_original(caller, single_of(row));
            original->wide_integers = original->single->wide_integers;
        }
        return original;
    }
    void* const provider = handle_of(original->function);
    if (row.integers == Integers::by_library)
        original->wide_integers = has_wide_integers(provider, original->function);
    original->threads = threads_of(provider, caller);
    return original;
}

/// Call sites seen so far: open addressing, filled under a mutex, read without; full at half: then
/// the map answers.
struct AddressTable {
    static constexpr size_t kSlots = 1024;
    struct Slot {
        std::atomic<const void*> address{nullptr};
        std::atomic<Library*> library{nullptr};
    };
    Slot slots[kSlots];
    size_t used = 0;
    std::mutex mutex;
    std::map<const void*, Library*> by_object;

    static size_t first_slot(const void* address) {
        return (reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15ull >> 40) % kSlots;
    }
    Library* find(const void* address) const {
        for (size_t at = first_slot(address), probes = 0; probes < kSlots;
             at = (at + 1) % kSlots, ++probes) {
            const void* const seen = slots[at].address.load(std::memory_order_acquire);
            if (seen == address) return slots[at].library.load(std::memory_order_relaxed);
            if (!seen) return nullptr;
        }
        return nullptr;
    }
    /// The library of an address that is new, or that found no slot. The mutex is held.
    Library* insert(const void* address) {
        Library*& library = by_object[object_of(address)];
        if (!library) {
            library = new Library;
            library->handle = handle_of(address);
        }
        if (used < kSlots / 2) {
            size_t at = first_slot(address);
            while (slots[at].address.load(std::memory_order_relaxed)) at = (at + 1) % kSlots;
            slots[at].library.store(library, std::memory_order_relaxed);
            slots[at].address.store(address, std::memory_order_release);
            ++used;
        }
        return library;
    }
};

AddressTable& table();

void lock_table() { table().mutex.lock(); }
void unlock_table() { table().mutex.unlock(); }

/// Never destroyed: calls may come while the program ends. A child forked while another thread
/// looks a library up finds the mutex free.
AddressTable& table() {
    static auto* const made = [] {
        ::pthread_atfork(lock_table, unlock_table, unlock_table);
        return new AddressTable;
    }();
    return *made;
}

__attribute__((noinline)) const Original& find_slowly(const void* return_address, Name name) {
    AddressTable& known = table();
    std::lock_guard lock(known.mutex);
    Library* library = known.find(return_address);
    if (!library) library = known.insert(return_address);
    auto& slot = library->originals[static_cast<size_t>(name)];
    if (!slot.load(std::memory_order_relaxed)) {
        slot.store(make_original(library->handle, kNames[static_cast<size_t>(name)]),
                   std::memory_order_release);
    }
    return *slot.load(std::memory_order_relaxed);
}

}  // namespace

const Original& original_at(const void* return_address, Name name) {
    if (Library* const library = table().find(return_address)) {
        const auto& slot = library->originals[static_cast<size_t>(name)];
        if (const Original* const found = slot.load(std::memory_order_acquire)) return *found;
    }
    return find_slowly(return_address, name);
}

}  // namespace whet::blas
