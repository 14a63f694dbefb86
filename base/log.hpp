// SPDX-License-Identifier: Apache-2.0
// The log: one sink, levels and topics; one line of key=value pairs per event.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace whet::base {

enum class Level {
    off,      ///< nothing at all
    error,    ///< Whet gave something up
    warning,  ///< something the user should change; the default
    info,     ///< one line per decision: site tuned, plan published, rolled back
    debug,    ///< every candidate
};

/// What is logged. Warnings and errors always pass the topics; the filter holds for info and debug
/// only.
struct LogSettings {
    Level level = Level::warning;
    std::vector<std::string> topics;  ///< empty: all
    std::string filter;               ///< only lines that contain it
    std::string path;                 ///< empty: standard error
};

/// What lines are about; WHET_LOG takes no other word but a level.
inline constexpr std::string_view kLogTopics[] = {"blas",  "check",   "code", "env",
                                                  "forge", "runtime", "tuner"};

/// Reads WHET_LOG's text, e.g. "info,tuner,filter=matmul": words are a level or a topic.
/// invalid_argument when a word is neither.
Result<LogSettings> parse_log_settings(std::string_view text);

/// Receives each finished line (with its newline), from any thread, possibly several at once.
using LogSink = void (*)(std::string_view line, void* user);

/// Installs settings; opens `path` for appending. Meant to be called once, at start; later calls
/// win. io_error when the file cannot be opened (then standard error is used). Never frees what
/// earlier lines may still use.
Result<void> configure_log(const LogSettings& settings);
/// Replaces the sink; null brings back the file or standard error.
void set_log_sink(LogSink sink, void* user) noexcept;

/// One key=value pair; a value with other than plain characters is quoted.
struct LogField {
    LogField(std::string_view field_key, std::string_view text) : key(field_key), value(text) {}
    LogField(std::string_view field_key, const char* text)
        : key(field_key), value(text ? text : "") {}
    LogField(std::string_view field_key, const std::string& text) : key(field_key), value(text) {}
    template <std::integral T>
    LogField(std::string_view field_key, T number)
        : key(field_key), value(std::to_string(number)) {}
    LogField(std::string_view field_key, double number);

    std::string_view key;
    std::string value;
};

/// Whether a line of this level and topic could be written: one atomic load. Ask before building
/// costly fields.
bool log_enabled(Level level, std::string_view topic) noexcept;

/// Writes `whet level=.. topic=.. event=.. key=value...`, one write(2) per line. Allocates: never
/// on the hot path.
void log_event(Level level, std::string_view topic, std::string_view event,
               std::initializer_list<LogField> fields);

}  // namespace whet::base
