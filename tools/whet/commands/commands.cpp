// SPDX-License-Identifier: Apache-2.0
// The small commands.
#include "tools/whet/commands/commands.hpp"

#include <unistd.h>
#include <whet/whet.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/whet/report/explain.hpp"
#include "tools/whet/report/gains.hpp"
#include "tools/whet/report/page.hpp"
#include "tools/whet/run/run.hpp"

namespace whet::tools {
namespace {

using Json = nlohmann::json;

constexpr double kAnswerSeconds =
    5;  // a background thread of lowest priority may wait long for a busy core
constexpr std::size_t kMaxTableRows = 1000;

int fail(const std::string& reason) {
    std::fprintf(stderr, "whet: %s\n", reason.c_str());
    return kExitFailed;
}

/// Splits an answer into lines as it comes and sends each where it belongs.
class AnswerPrinter {
public:
    explicit AnswerPrinter(bool print) : print_(print), progress_(isatty(STDERR_FILENO) != 0) {}
    static void write(const char* text, size_t length, void* self) {
        static_cast<AnswerPrinter*>(self)->append(text, length);
    }
    void finish() {
        if (!rest_.empty()) line(rest_);
        if (drawn_) std::fputs("\r\x1b[K", stderr);
    }
    const std::string& answer() const { return answer_; }
    const std::string& error() const { return error_; }

private:
    void append(const char* text, size_t length) {
        rest_.append(text, length);
        for (size_t end; (end = rest_.find('\n')) != std::string::npos; rest_.erase(0, end + 1)) {
            line(rest_.substr(0, end));
        }
    }
    void line(const std::string& text) {
        if (text.starts_with("# ")) {
            if (progress_) std::fprintf(stderr, "\r%.110s\x1b[K", text.c_str() + 2);
            drawn_ |= progress_;
            return;
        }
        if (text.starts_with("error: ")) {
            error_ = text.substr(7);
            return;
        }
        answer_ += text + "\n";
        if (print_) std::printf("%s\n", text.c_str());
    }

    bool print_;
    bool progress_;
    bool drawn_ = false;
    std::string rest_, answer_, error_;
};

/// Asks the forge; on failure prints the reason and returns empty.
std::optional<std::string> ask_for(const std::string& request, bool print) {
    AnswerPrinter printer(print);
    const whet_status status = whet_text_call(request.c_str(), AnswerPrinter::write, &printer);
    printer.finish();
    if (status == WHET_OK && printer.error().empty()) return printer.answer();
    fail(status == WHET_OK ? printer.error() : std::string(whet_last_error()));
    return std::nullopt;
}

/// Has a process write its report now; empty, with the reason printed, when that failed.
std::optional<std::string> report_of_process(std::int32_t pid) {
    ControlHost host;
    if (const std::string failure = host.attach(pid); !failure.empty()) {
        fail(failure);
        return std::nullopt;
    }
    const auto word = host.command_one(pid, WHET_CONTROL_REPORT);
    if (!word) {
        fail("process " + std::to_string(pid) + " has not loaded whet, or has not called it yet");
        return std::nullopt;
    }
    host.wait_acknowledged(*word, kAnswerSeconds);
    for (const ProcessView& view : host.read(true)) {
        if (view.pid == pid && !view.report.empty()) return view.report;
    }
    fail("process " + std::to_string(pid) + " has written no report yet");
    return std::nullopt;
}

std::optional<std::string> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (file.is_open() && !file.bad()) return text;
    fail("cannot read " + path);
    return std::nullopt;
}

/// The reports in what `whet run --json` wrote, or the one report that the text is.
std::vector<std::string> reports_in(const std::string& text) {
    const Json parsed = Json::parse(text, nullptr, false);
    if (!parsed.is_object()) return {};
    if (parsed.contains("sites")) return {text};
    std::vector<std::string> reports;
    for (const Json& one : parsed.value("processes", Json::array())) reports.push_back(one.dump());
    return reports;
}

}  // namespace

int report(const ReportSource& source, ReportFormat format) {
    std::optional<std::string> text;
    std::vector<std::string> reports;
    if (!source.file.empty()) {
        if (!(text = read_file(source.file))) return kExitFailed;
        reports = reports_in(*text);
        if (reports.empty()) return fail(source.file + " holds no report of whet run --json");
    } else {
        text = source.pid ? report_of_process(*source.pid) : ask_for("report", false);
        if (!text) return kExitFailed;
        reports = {*text};
    }
    if (format == ReportFormat::json) {
        std::fputs((*text + (text->ends_with('\n') ? "" : "\n")).c_str(), stdout);
        return kExitDone;
    }
    const Gains gains = merge_reports(reports);
    std::fputs((format == ReportFormat::html ? gains_html(gains) : gains_text(gains, kMaxTableRows))
                   .c_str(),
               stdout);
    return kExitDone;
}

int explain(const std::string& shape, std::optional<std::int32_t> pid) {
    if (!pid) return ask("explain " + shape);
    const auto text = report_of_process(*pid);
    if (!text) return kExitFailed;
    const Gains gains = merge_reports({*text});
    const auto sentences = explain_text(gains, shape);
    if (!sentences) return fail(explain_absence(gains, shape));
    std::fputs(sentences->c_str(), stdout);
    return kExitDone;
}

int control(std::int32_t pid, const std::string& command) {
    static constexpr std::pair<const char*, whet_control_command> kCommands[] = {
        {"enable", WHET_CONTROL_ENABLE}, {"disable", WHET_CONTROL_DISABLE},
        {"pause", WHET_CONTROL_PAUSE},   {"resume", WHET_CONTROL_RESUME},
        {"pin", WHET_CONTROL_PIN},       {"drain", WHET_CONTROL_DRAIN},
    };
    if (command == "report") return report({pid, {}}, ReportFormat::text);
    for (const auto& [name, code] : kCommands) {
        if (command != name) continue;
        ControlHost host;
        if (const std::string failure = host.attach(pid); !failure.empty()) return fail(failure);
        const auto word = host.command_one(pid, code);
        if (!word)
            return fail("process " + std::to_string(pid) +
                        " has not loaded whet, or has not called it yet");
        if (host.wait_acknowledged(*word, kAnswerSeconds)) return kExitDone;
        return fail("process " + std::to_string(pid) + " did not answer");
    }
    std::fprintf(stderr,
                 "whet: %s is no command: enable, disable, pause, resume, pin, drain, report\n",
                 command.c_str());
    return kExitWrongUse;
}

int ask(const std::string& request) { return ask_for(request, true) ? kExitDone : kExitFailed; }

}  // namespace whet::tools
