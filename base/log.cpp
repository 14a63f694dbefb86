// SPDX-License-Identifier: Apache-2.0
// The log: settings behind one atomic pointer, lines written whole.
#include "base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace whet::base {
namespace {

// Replaced, never freed: a line in flight on another thread may still read the old one. The chain
// to the older ones tells leak checkers that they are still held.
struct Settings : LogSettings {
    Settings(const LogSettings& settings, const Settings* older)
        : LogSettings(settings), previous(older) {}
    const Settings* previous;
};

struct Sink {
    LogSink write;
    void* user;
    const Sink* previous;
};

std::atomic<const Settings*> current_settings{nullptr};
std::atomic<const Sink*> current_sink{nullptr};
std::atomic<int> current_descriptor{STDERR_FILENO};

const char* level_name(Level level) {
    switch (level) {
        case Level::off: return "off";
        case Level::error: return "error";
        case Level::warning: return "warning";
        case Level::info: return "info";
        case Level::debug: return "debug";
    }
    return "unknown";
}

bool is_plain(char character) {
    return std::isalnum(static_cast<unsigned char>(character)) ||
           std::strchr("_-.,:/+*()[]<>%@", character);
}

void append_value(std::string& line, std::string_view value) {
    if (!value.empty() &&
        std::all_of(value.begin(), value.end(), [](char c) { return c && is_plain(c); })) {
        line += value;
        return;
    }
    line += '"';
    for (const char character : value) {
        const auto byte = static_cast<unsigned char>(character);
        if (character == '"' || character == '\\') {
            line += '\\';
            line += character;
        } else if (byte < 0x20 || byte == 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof(escape), "\\x%02x", byte);
            line += escape;
        } else {
            line += character;
        }
    }
    line += '"';
}

void write_line(const std::string& line) {
    if (const Sink* sink = current_sink.load(std::memory_order_acquire); sink && sink->write) {
        sink->write(line, sink->user);
        return;
    }
    const int saved_errno = errno;  // a log line must not change what the host sees
    const int descriptor = current_descriptor.load(std::memory_order_acquire);
    size_t done = 0;
    while (done < line.size()) {
        const ssize_t written = ::write(descriptor, line.data() + done, line.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        done += static_cast<size_t>(written);
    }
    errno = saved_errno;
}

}  // namespace

LogField::LogField(std::string_view field_key, double number) : key(field_key) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.6g", number);
    value = text;
}

Result<LogSettings> parse_log_settings(std::string_view text) {
    LogSettings settings;
    while (!text.empty()) {
        const size_t comma = text.find(',');
        const std::string_view word = text.substr(0, comma);
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
        if (word.starts_with("filter=")) {
            settings.filter = word.substr(7);
            continue;
        }
        bool is_level = false;
        for (const Level level :
             {Level::off, Level::error, Level::warning, Level::info, Level::debug}) {
            if (word != level_name(level)) continue;
            settings.level = level;
            is_level = true;
        }
        if (is_level) continue;
        if (std::find(std::begin(kLogTopics), std::end(kLogTopics), word) == std::end(kLogTopics)) {
            return make_error(Code::invalid_argument, "\"%.*s\" is neither a level nor a topic",
                              static_cast<int>(word.size()), word.data());
        }
        settings.topics.emplace_back(word);
    }
    // Naming a topic without a level asks to see its decisions.
    if (!settings.topics.empty() && settings.level == Level::warning) settings.level = Level::info;
    return settings;
}

Result<void> configure_log(const LogSettings& settings) {
    int descriptor = STDERR_FILENO;
    int open_errno = 0;
    if (!settings.path.empty()) {
        descriptor = ::open(settings.path.c_str(),
                            O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
        if (descriptor < 0) {
            open_errno = errno;
            descriptor = STDERR_FILENO;
        }
    }
    current_descriptor.store(descriptor, std::memory_order_release);
    current_settings.store(new Settings(settings, current_settings.load()),
                           std::memory_order_release);
    if (open_errno != 0) {
        return make_error(Code::io_error, "cannot open log file %s: %s", settings.path.c_str(),
                          std::strerror(open_errno));
    }
    return {};
}

void set_log_sink(LogSink sink, void* user) noexcept {
    current_sink.store(new Sink{sink, user, current_sink.load()}, std::memory_order_release);
}

bool log_enabled(Level level, std::string_view topic) noexcept {
    const LogSettings* settings = current_settings.load(std::memory_order_acquire);
    if (!settings) return level != Level::off && level <= Level::warning;
    if (level == Level::off || level > settings->level) return false;
    if (level <= Level::warning || settings->topics.empty()) return true;
    return std::find(settings->topics.begin(), settings->topics.end(), topic) !=
           settings->topics.end();
}

void log_event(Level level, std::string_view topic, std::string_view event,
               std::initializer_list<LogField> fields) {
    if (!log_enabled(level, topic)) return;
    std::string line = "whet level=";
    line += level_name(level);
    line += " topic=";
    append_value(line, topic);
    line += " event=";
    append_value(line, event);
    for (const LogField& field : fields) {
        line += ' ';
        line += field.key;
        line += '=';
        append_value(line, field.value);
    }
    const LogSettings* settings = current_settings.load(std::memory_order_acquire);
    const bool filtered = settings && !settings->filter.empty() && level > Level::warning;
    if (filtered && line.find(settings->filter) == std::string::npos) return;
    line += '\n';
    write_line(line);
}

}  // namespace whet::base
