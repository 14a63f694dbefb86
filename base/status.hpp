// SPDX-License-Identifier: Apache-2.0
// Errors as values: the canonical codes, Error, Result<T> and the macro WHET_TRY.
#pragma once

#include <cstdarg>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace whet::base {

/// The canonical codes; the numbers equal `whet_status` of the C ABI.
enum class Code : int {
    ok = 0,            ///< done
    invalid_argument,  ///< the caller's input contradicts itself; nothing was written
    unsupported,       ///< legal, but not ours: try the next implementation
    not_found,         ///< no such site, file, symbol or row
    out_of_budget,     ///< a time, memory, code or site budget is used up
    compile_failed,    ///< code generation did not give a usable blob
    verify_failed,     ///< a candidate gave a wrong answer or broke a safety rule
    device_error,      ///< the device or its driver failed
    io_error,          ///< a file, socket or process failed
    internal,          ///< a broken invariant of Whet itself
};

/// Returns the code's name as in the C ABI, e.g. "invalid_argument".
const char* code_name(Code code) noexcept;

/// A failure: a code and one sentence (lower case, no final period, got and expected).
struct Error {
    Code code = Code::internal;
    std::string message;
};

/// Makes an Error from a printf format. Every error passes here, so one breakpoint finds them all.
[[nodiscard]] Error make_error(Code code, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

/// A value or an Error; the member names are those of std::expected (C++23).
template <typename T>
class [[nodiscard]] Result {
public:
    Result(T given) : state_(std::in_place_index<0>, std::move(given)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }
    T& value() & { return std::get<0>(state_); }
    const T& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    const Error& error() const& { return std::get<1>(state_); }
    Error&& error() && { return std::get<1>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

private:
    std::variant<T, Error> state_;
};

/// The result of work that returns nothing.
template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), failed_(true) {}

    bool has_value() const noexcept { return !failed_; }
    explicit operator bool() const noexcept { return has_value(); }
    const Error& error() const& { return error_; }
    Error&& error() && { return std::move(error_); }

private:
    Error error_;
    bool failed_ = false;
};

}  // namespace whet::base

#define WHET_CONCAT_INNER(a, b) a##b
#define WHET_CONCAT(a, b) WHET_CONCAT_INNER(a, b)

/// Evaluates a Result; on failure returns its Error from the enclosing function.
/// `WHET_TRY(auto plan, lower(op, schedule));` declares `plan`; `WHET_TRY_VOID(check(x));` declares
/// nothing.
#define WHET_TRY(declaration, ...) \
    WHET_TRY_NAMED(declaration, WHET_CONCAT(whet_try_, __LINE__), __VA_ARGS__)
#define WHET_TRY_NAMED(declaration, name, ...)             \
    auto name = (__VA_ARGS__);                             \
    if (!name.has_value()) return std::move(name).error(); \
    declaration = std::move(name).value()
#define WHET_TRY_VOID(...)                                                           \
    do {                                                                             \
        auto whet_try_result = (__VA_ARGS__);                                        \
        if (!whet_try_result.has_value()) return std::move(whet_try_result).error(); \
    } while (false)
