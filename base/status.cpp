// SPDX-License-Identifier: Apache-2.0
// Errors as values: names of codes and the one function that makes errors.
#include "base/status.hpp"

#include <cstdio>

namespace whet::base {

const char* code_name(Code code) noexcept {
    switch (code) {
        case Code::ok: return "ok";
        case Code::invalid_argument: return "invalid_argument";
        case Code::unsupported: return "unsupported";
        case Code::not_found: return "not_found";
        case Code::out_of_budget: return "out_of_budget";
        case Code::compile_failed: return "compile_failed";
        case Code::verify_failed: return "verify_failed";
        case Code::device_error: return "device_error";
        case Code::io_error: return "io_error";
        case Code::internal: return "internal";
    }
    return "unknown";
}

Error make_error(Code code, const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    std::va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, format, arguments);
    va_end(arguments);

    Error error{code, {}};
    if (length > 0) {
        error.message.resize(static_cast<size_t>(length));
        std::vsnprintf(error.message.data(), error.message.size() + 1, format, again);
    }
    va_end(again);
    return error;
}

}  // namespace whet::base
