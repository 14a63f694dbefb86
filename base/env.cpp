// SPDX-License-Identifier: Apache-2.0
// The environment: parsing by the table.
#include "base/env.hpp"

#include <sys/auxv.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace whet::base {
namespace {

using Warnings = std::vector<std::string>;

std::string_view trim(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

/// Index of `word` in a comma-separated list, or -1.
int index_in_list(std::string_view list, std::string_view word) {
    int index = 0;
    while (!list.empty()) {
        const size_t comma = list.find(',');
        if (trim(list.substr(0, comma)) == word) return index;
        if (comma == std::string_view::npos) return -1;
        list.remove_prefix(comma + 1);
        ++index;
    }
    return -1;
}

template <typename T>
std::optional<T> parse_number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// One variable's value on its way into Options.
class Reader {
public:
    Reader(const Variable& variable, std::string_view value, Warnings& warnings)
        : variable_(variable), value_(value), warnings_(warnings) {}

    void refuse(std::string_view expected) {
        warnings_.push_back(std::string(variable_.name) + "=" + std::string(value_) +
                            " is ignored: expected " + std::string(expected));
    }
    void refuse_unbuilt() {
        warnings_.push_back(std::string(variable_.name) + "=" + std::string(value_) +
                            " is refused: not built in this version");
    }

    void read(bool& target) {
        if (value_ == "0" || value_ == "1")
            target = value_ == "1";
        else
            refuse(variable_.range);
    }

    template <typename Enum>
    void read_choice(Enum& target) {
        const int index = index_in_list(variable_.range, value_);
        if (index >= 0)
            target = static_cast<Enum>(index);
        else
            refuse(variable_.range);
    }

    template <typename T>
    void read_number(T& target, T low, T high) {
        const auto parsed = parse_number<T>(value_);
        if (parsed && *parsed >= low && *parsed <= high)
            target = *parsed;
        else
            refuse(variable_.range);
    }

    void read_bytes(std::int64_t& target) {
        const auto parsed = parse_bytes(value_);
        if (parsed)
            target = *parsed;
        else
            refuse(variable_.range);
    }

    void read_bytes_or_auto(std::optional<std::int64_t>& target) {
        if (value_ == "auto") return;
        std::int64_t bytes = -1;
        read_bytes(bytes);
        if (bytes >= 0) target = bytes;
    }

    std::string_view value() const { return value_; }

private:
    const Variable& variable_;
    std::string_view value_;
    Warnings& warnings_;
};

void read_policy(Reader& reader, Options& options, std::span<const std::string_view> policies) {
    const std::string_view value = reader.value();
    const bool known = value == "auto" || policies.empty() ||
                       std::find(policies.begin(), policies.end(), value) != policies.end();
    if (known) {
        options.policy = value;
        return;
    }
    std::string expected = "auto";
    for (const std::string_view name : policies) expected += ", " + std::string(name);
    reader.refuse(expected);
}

void read_store(Reader& reader, Options& options) {
    const std::string_view value = reader.value();
    if (value.find("://") != std::string_view::npos)
        reader.refuse_unbuilt();
    else if (value == "none")
        options.store_path.clear();
    else
        options.store_path = value;
}

void make_absolute(std::string& path) {
    std::error_code code;
    if (path.empty() || path.front() == '/') return;
    const std::filesystem::path folder = std::filesystem::current_path(code);
    if (!code) path = (folder / path).string();
}

/// Budgets: everything whose name begins with WHET_BUDGET_.
void read_budget(std::string_view name, Reader& reader, Options& options) {
    constexpr double kMaxCores = 1024;              // more than any machine of this kind has
    constexpr std::int64_t kMaxSites = 16ll << 20;  // a table of this size is 2 GiB
    const std::string_view value = reader.value();
    if (name == "WHET_BUDGET_CPU") {
        double share = -1;
        if (value != "auto") reader.read_number(share, 0.0, kMaxCores);
        if (share >= 0) options.budget_cpu = share;
    } else if (name == "WHET_BUDGET_SECONDS") {
        if (value != "unlimited") reader.read_number(options.budget_seconds, 0.0, 1e18);
    } else if (name == "WHET_BUDGET_TRIALS") {
        if (value != "unlimited") {
            reader.read_number(options.budget_trials, std::int64_t{0},
                               std::numeric_limits<std::int64_t>::max());
        }
    } else if (name == "WHET_BUDGET_MEMORY") {
        reader.read_bytes_or_auto(options.budget_memory_bytes);
    } else if (name == "WHET_BUDGET_CODE") {
        reader.read_bytes(options.budget_code_bytes);
    } else if (name == "WHET_BUDGET_PACKED") {
        reader.read_bytes_or_auto(options.budget_packed_bytes);
    } else if (name == "WHET_BUDGET_SITES") {
        reader.read_number(options.budget_sites, std::int64_t{1}, kMaxSites);
    }
}

void read_variable(std::string_view name, Reader& reader, Options& options,
                   std::span<const std::string_view> policies) {
    if (name.starts_with("WHET_BUDGET_")) return read_budget(name, reader, options);
    if (name == "WHET_ENABLE") return reader.read(options.enable);
    if (name == "WHET_TUNE") return reader.read_choice(options.tune);
    if (name == "WHET_NUMERICS") return reader.read_choice(options.numerics);
    if (name == "WHET_PIN") return reader.read(options.pin);
    if (name == "WHET_CHECKED") return reader.read(options.checked);
    if (name == "WHET_FORGE") return reader.read_choice(options.forge);
    if (name == "WHET_ISA") return reader.read_choice(options.isa);
    if (name == "WHET_STORE") return read_store(reader, options);
    if (name == "WHET_POLICY") return read_policy(reader, options, policies);
    if (name == "WHET_TEST_HOOKS") return reader.read(options.test_hooks);
    if (name == "WHET_SEED") {
        return reader.read_number(options.seed, std::uint64_t{0},
                                  std::numeric_limits<std::uint64_t>::max());
    }
    if (name == "WHET_PERF") return reader.read(options.perf);
    if (name == "WHET_FORCE") options.force = reader.value();
    if (name == "WHET_LOG") options.log = reader.value();
    if (name == "WHET_LOG_FILE") options.log_file = reader.value();
    if (name == "WHET_DUMP") options.dump_directory = reader.value();
    if (name == "WHET_CONTROL") options.control_path = reader.value();
}

std::string default_store(const char* const* environment) {
    std::string_view cache, home;
    for (const char* const* entry = environment; entry && *entry; ++entry) {
        const std::string_view text = *entry;
        if (text.starts_with("XDG_CACHE_HOME=")) cache = text.substr(15);
        if (text.starts_with("HOME=")) home = text.substr(5);
    }
    // The XDG base directory rules say that a relative path is to be ignored.
    if (cache.starts_with("/")) return std::string(cache) + "/whet/store.db";
    if (home.starts_with("/")) return std::string(home) + "/.cache/whet/store.db";
    return {};
}

}  // namespace

std::optional<std::int64_t> parse_bytes(std::string_view text) noexcept {
    int shift = 0;
    if (!text.empty()) {
        switch (text.back()) {
            case 'K':
            case 'k': shift = 10; break;
            case 'M':
            case 'm': shift = 20; break;
            case 'G':
            case 'g': shift = 30; break;
            default: break;
        }
    }
    if (shift != 0) text.remove_suffix(1);
    const auto value = parse_number<std::int64_t>(text);
    if (!value || *value < 0 || *value > (std::numeric_limits<std::int64_t>::max() >> shift))
        return std::nullopt;
    return *value << shift;
}

Options load_options(const char* const* environment, std::vector<std::string>& warnings,
                     std::span<const std::string_view> policies) {
    Options options;
    // A setuid program must not hand its rights to whoever sets the environment.
    constexpr const char* kNothing[] = {nullptr};
    if (getauxval(AT_SECURE) != 0) environment = kNothing;
    options.store_path = default_store(environment);
    for (const char* const* entry = environment; entry && *entry; ++entry) {
        const std::string_view text = *entry;
        const size_t equals = text.find('=');
        if (!text.starts_with("WHET_") || equals == std::string_view::npos) continue;
        const std::string_view name = text.substr(0, equals);
        const std::string_view value = text.substr(equals + 1);
        const auto variable =
            std::find_if(kVariables.begin(), kVariables.end(),
                         [name](const Variable& row) { return row.name == name; });
        if (variable == kVariables.end()) {
            warnings.push_back(std::string(name) + " is not a variable of whet");
            continue;
        }
        if (value.empty()) continue;  // set but empty means the default, as for most programs
        Reader reader(*variable, value, warnings);
        if (index_in_list(variable->refused, value) >= 0)
            reader.refuse_unbuilt();
        else
            read_variable(name, reader, options, policies);
    }
    // The helper's working folder is another, and the program may change its own.
    for (std::string* const path : {&options.store_path, &options.dump_directory}) make_absolute(*path);
    return options;
}

std::string environment_page() {
    std::string page =
        "# Environment variables\n\n"
        "Generated from the table in `base/env.hpp`; `make docs` writes it again. What a program "
        "sets through the\n"
        "interface comes before the environment, the environment before the default. An unknown "
        "name or a value that\n"
        "cannot be used gives one warning each and is ignored.\n\n"
        "| variable | values | default | meaning |\n|---|---|---|---|\n";
    for (const Variable& variable : kVariables) {
        page += "| `" + std::string(variable.name) + "` | " + std::string(variable.range) + " | " +
                std::string(variable.default_text) + " | " + std::string(variable.sentence);
        if (!variable.refused.empty()) {
            page += " `" + std::string(variable.refused) +
                    "` is not built in this version and refused.";
        }
        page += " |\n";
    }
    return page;
}

}  // namespace whet::base
