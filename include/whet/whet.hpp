// SPDX-License-Identifier: Apache-2.0
// The C ABI as inline C++17: tensors by lists of extents, sites with any callable as fall-back,
// freezing by scope.
#pragma once

#include <whet/whet.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

namespace whet {
inline namespace v0 {

/// The text of the calling thread's last failure.
inline std::string last_error() { return whet_last_error(); }

/// A view of the caller's f32 or f64 data. Holds its extents and strides; the data is not owned and must
/// outlive the calls.
class Tensor {
public:
    /// Compact row-major data, or with strides in elements. More than WHET_MAX_RANK extents are
    /// refused by whet_op_*.
    Tensor(float* data, std::initializer_list<std::int64_t> extents,
           std::initializer_list<std::int64_t> strides = {})
        : Tensor(data, WHET_F32, extents, strides) {}
    Tensor(double* data, std::initializer_list<std::int64_t> extents,
           std::initializer_list<std::int64_t> strides = {})
        : Tensor(data, WHET_F64, extents, strides) {}

    void* data() const noexcept { return data_; }
    /// The C form; it points into this object.
    whet_tensor c_tensor() const noexcept {
        return {data_, dtype_, rank_, extents_.data(), strided_ ? strides_.data() : nullptr};
    }

private:
    Tensor(void* data, whet_dtype dtype, std::initializer_list<std::int64_t> extents,
           std::initializer_list<std::int64_t> strides)
        : data_(data),
          dtype_(dtype),
          rank_(static_cast<std::int32_t>(extents.size())),
          strided_(strides.size() != 0) {
        const bool fits =
            extents.size() <= WHET_MAX_RANK && (!strided_ || strides.size() == extents.size());
        if (!fits) rank_ = -1;
        std::size_t at = 0;
        for (const std::int64_t extent : extents) {
            if (fits) extents_[at++] = extent;
        }
        at = 0;
        for (const std::int64_t stride : strides) {
            if (fits) strides_[at++] = stride;
        }
    }

    void* data_;
    whet_dtype dtype_;
    std::int32_t rank_;
    bool strided_;
    std::array<std::int64_t, WHET_MAX_RANK> extents_{};
    std::array<std::int64_t, WHET_MAX_RANK> strides_{};
};

/// c = epilogue(alpha a b + beta c + bias); see whet_op_matmul.
inline whet_status op_matmul(whet_op& op, const Tensor& c, const Tensor& a, const Tensor& b,
                             const Tensor* bias = nullptr, double alpha = 1, double beta = 0,
                             whet_epilogue epilogue = WHET_EPILOGUE_NONE) {
    const whet_tensor c_c = c.c_tensor(), c_a = a.c_tensor(), c_b = b.c_tensor();
    const whet_tensor c_bias = bias ? bias->c_tensor() : whet_tensor{};
    return whet_op_matmul(&op, &c_c, &c_a, &c_b, bias ? &c_bias : nullptr, alpha, beta, epilogue);
}

/// Threads of the program: `run(count, body)` calls body(i) once for every i in [0, count), at once
/// as far as it can, and returns when all have returned; it must not throw. With oneTBB:
///     whet::Executor executor([](int count, auto&& body) { tbb::parallel_for(0, count, body); });
/// Refers to `run` by value; must outlive the calls.
template <typename Run>
class Executor {
public:
    explicit Executor(Run run) : run_(std::move(run)) {}
    /// The C form; it points into this object.
    whet_executor c_executor() const noexcept {
        return {&Executor::run, const_cast<void*>(static_cast<const void*>(this))};
    }

private:
    static void run(void* self, int count, void (*task)(void* data, int index), void* data) {
        static_cast<const Executor*>(self)->run_(count, [=](int index) { task(data, index); });
    }
    Run run_;
};

/// A handle of one operation's slot; valid as long as the process, free to copy.
class Site {
public:
    /// Finds or makes the slot; see whet_site_get.
    static whet_status get(const whet_op& op, Site& site) {
        return whet_site_get(&op, &site.handle_);
    }

    /// Runs the site's plan on the data pointers (dst first), or `fallback()` on this thread.
    /// Allocates nothing. An exception of the fall-back must not leave it.
    template <typename Fallback, typename... Data>
    whet_status call(Fallback&& fallback, Data*... data) const {
        void* operands[] = {const_cast<void*>(static_cast<const void*>(data))...};
        return whet_site_call(
            handle_, operands, static_cast<int>(sizeof...(data)),
            [](void* user) { (*static_cast<std::remove_reference_t<Fallback>*>(user))(); },
            const_cast<void*>(static_cast<const void*>(&fallback)));
    }
    /// The same for an operation of several threads (whet_op_set_threads), whose plan runs through
    /// `executor`.
    template <typename Run, typename Fallback, typename... Data>
    whet_status call_on(const Executor<Run>& executor, Fallback&& fallback, Data*... data) const {
        void* operands[] = {const_cast<void*>(static_cast<const void*>(data))...};
        const whet_executor c_executor = executor.c_executor();
        return whet_site_call_on(
            handle_, operands, static_cast<int>(sizeof...(data)), &c_executor,
            [](void* user) { (*static_cast<std::remove_reference_t<Fallback>*>(user))(); },
            const_cast<void*>(static_cast<const void*>(&fallback)));
    }
    whet_site* handle() const noexcept { return handle_; }

private:
    whet_site* handle_ = nullptr;
};

/// Promises, while it lives, that bytes keep their content; see whet_freeze.
class Frozen {
public:
    Frozen(const void* pointer, std::size_t bytes)
        : pointer_(whet_freeze(pointer, bytes) == WHET_OK ? pointer : nullptr) {}
    Frozen(Frozen&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
    Frozen(const Frozen&) = delete;
    Frozen& operator=(const Frozen&) = delete;
    Frozen& operator=(Frozen&&) = delete;
    ~Frozen() {
        if (pointer_) whet_thaw(pointer_);
    }
    /// False when the promise was refused; then calls are as before.
    explicit operator bool() const noexcept { return pointer_ != nullptr; }

private:
    const void* pointer_;
};

/// Returns a report ("text", "json", "prometheus"); empty on failure.
inline std::string report(const char* format) {
    std::string text;
    const auto append = [](const char* part, std::size_t length, void* user) {
        static_cast<std::string*>(user)->append(part, length);
    };
    return whet_report(format, append, &text) == WHET_OK ? text : std::string();
}

}  // namespace v0
}  // namespace whet
