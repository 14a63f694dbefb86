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
    const Original* originals[kNameCount] = {};
};

/// The load address of the object that holds an address; null when unknown.
const void* object_of(const void* address) {
    Dl_info info{};
    return ::dladdr(address, &info) ? info.dli_fbase : nullptr;
}

const void* own_object() {
    static const void* const own = object_of(reinterpret_cast<const void*>(&find_original));
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

/// Of the BLAS's own OpenMP runtime, else of its caller's.
Threads threads_of(void* provider, void* caller) {
    Threads threads;
    threads.openblas_get_num_threads = first_of<int (*)()>(
        provider, {"openblas_get_num_threads", "openblas_get_num_threads64_",
                   "scipy_openblas_get_num_threads", "scipy_openblas_get_num_threads64_"});
    threads.mkl_get_max_threads = first_of<int (*)()>(provider, {"MKL_Get_Max_Threads"});
    threads.mkl_set_num_threads_local =
        first_of<int (*)(int)>(provider, {"MKL_Set_Num_Threads_Local"});
    // 0: no threads, 1: its own threads, which nobody else can use, 2: OpenMP.
    const auto kind = first_of<int (*)()>(
        provider, {"openblas_get_parallel", "openblas_get_parallel64_",
                   "scipy_openblas_get_parallel", "scipy_openblas_get_parallel64_"});
    void* const runtime = ::dlsym(provider, "omp_get_max_threads") ? provider : caller;
    threads.omp_set_num_threads = first_of<void (*)(int)>(runtime, {"omp_set_num_threads"});
    if (threads.openblas_get_num_threads && (!kind || kind() != 2)) return threads;
    threads.omp_get_max_threads = first_of<int (*)()>(runtime, {"omp_get_max_threads"});
    threads.omp_in_parallel = first_of<int (*)()>(runtime, {"omp_in_parallel"});
    threads.omp_get_num_threads = first_of<int (*)()>(runtime, {"omp_get_num_threads"});
    threads.omp_get_thread_num = first_of<int (*)()>(runtime, {"omp_get_thread_num"});
    threads.gomp_parallel = first_of<decltype(threads.gomp_parallel)>(runtime, {"GOMP_parallel"});
    return threads;
}

std::atomic<bool> region_was_opened = false;
std::atomic<bool> team_is_gone = false;

/// A parallel region: every thread of the team takes each so many-th task, since the runtime may
/// give fewer threads than were asked for.
struct Region {
    const Threads& threads;
    int count;
    void (*task)(void* data, int index);
    void* data;

    static void run(void* self) {
        const auto& [threads, count, task, data] = *static_cast<const Region*>(self);
        const int team = threads.omp_get_num_threads();
        for (int index = threads.omp_get_thread_num(); index < count; index += team)
            task(data, index);
    }
};

const Original* make_original(void* caller, const NameRow& row) {
    auto* const original = new Original;
    original->operation = row.operation;
    original->f64 = row.element_bytes == sizeof(double);
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

/// What changes when a new call site is met.
struct Callers {
    std::mutex mutex;
    std::map<const void*, Library> by_object;
    size_t call_sites_used = 0;
};

Callers& callers();

void lock_callers() { callers().mutex.lock(); }
void unlock_callers() { callers().mutex.unlock(); }

/// Never destroyed: calls may come while the program ends. A child forked while another thread
/// looks a library up finds the mutex free.
Callers& callers() {
    static auto* const made = [] {
        ::pthread_atfork(lock_callers, unlock_callers, unlock_callers);
        return new Callers;
    }();
    return *made;
}

/// The place of a call site, or the free one where it belongs.
CallSite& place_of(uint64_t key) {
    size_t at = first_call_site(key);
    while (true) {
        const uint64_t seen = call_sites[at].key.load(std::memory_order_acquire);
        if (seen == key || seen == 0) return call_sites[at];
        at = (at + 1) % kCallSites;
    }
}

}  // namespace

CallSite call_sites[kCallSites];

void run_on_openmp(void* threads, int count, void (*task)(void* data, int index), void* data) {
    const auto& runtime = *static_cast<const Threads*>(threads);
    static const bool watched =
        ::pthread_atfork(nullptr, nullptr, [] { team_is_gone = region_was_opened.load(); }) == 0;
    if (team_is_gone || !watched) {
        for (int index = 0; index < count; ++index) task(data, index);
        return;
    }
    if (!region_was_opened.load(std::memory_order_relaxed)) region_was_opened = true;
    Region region{runtime, count, task, data};
    runtime.gomp_parallel(&Region::run, &region, static_cast<unsigned>(count), 0);
}

const Original& find_original(const void* return_address, Name name) {
    const uint64_t key = call_site_key(return_address, name);
    CallSite& site = place_of(key);
    if (site.key.load(std::memory_order_acquire) == key)
        return *site.original.load(std::memory_order_relaxed);
    Callers& all = callers();
    std::lock_guard lock(all.mutex);
    Library& library = all.by_object[object_of(return_address)];
    if (!library.handle) library.handle = handle_of(return_address);
    const Original*& original = library.originals[static_cast<size_t>(name)];
    if (!original) original = make_original(library.handle, kNames[static_cast<size_t>(name)]);
    // Beyond half of the places, a call site asks its library every time.
    CallSite& free = place_of(key);
    if (free.key.load(std::memory_order_relaxed) == 0 && all.call_sites_used < kCallSites / 2) {
        free.original.store(original, std::memory_order_relaxed);
        free.key.store(key, std::memory_order_release);
        ++all.call_sites_used;
    }
    return *original;
}

}  // namespace whet::blas
