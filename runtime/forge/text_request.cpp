// SPDX-License-Identifier: Apache-2.0
// Answers to the questions of the command line: inspect, tune, report, explain.
#include "runtime/forge/text_request.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.hpp"
#include "jit/op/computation.hpp"
#include "jit/reference/reference.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/forge/op_row.hpp"

namespace whet::runtime::forge {
namespace {

constexpr double kTuneSeconds = 20;  ///< `tune` without a time
constexpr double kProgressSeconds = 0.1;

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* pattern, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof(text), pattern, arguments);
    va_end(arguments);
    return text;
}

/// `row` with the canonical operation, its site made known if it is not.
base::Result<Site*> site_of(Workshop& workshop, const std::string& row) {
    WHET_TRY(const whet_op parsed, parse_op_row(row));
    SiteMessage message;
    message.op = canonical(parsed);
    message.site = operation_id(message.op);
    message.family = family_id(message.op);
    workshop.add_site(message);
    return workshop.find_site(message.site);
}

std::string evidence_of(const Site& site) {
    std::string text;
    if (site.has_best && site.best_ns > 0) {
        text += format("time      %.3f us a call, bound %.3f us, share of the bound %.2f\n",
                       site.best_ns * 1e-3, site.bound_ns * 1e-3, site.bound_ns / site.best_ns);
    }
    if (site.ratio > 0) {
        text += format("gain      %.3f [%.3f, %.3f] against the plan before it\n", site.ratio,
                       site.low, site.high);
    }
    text += format("trials    %lld now, %lld stored, %llu refused\n",
                   static_cast<long long>(site.trials), static_cast<long long>(site.stored_trials),
                   static_cast<unsigned long long>(site.rejected));
    if (!site.note.empty()) text += "note      " + site.note + "\n";
    return text;
}

void inspect(Workshop& workshop, const std::string& row, const WriteReply& write) {
    auto found = site_of(workshop, row);
    if (!found) return void(write("error: " + found.error().message + "\n", true));
    Site& site = **found;
    // A plan is needed, not a search: one step makes the first one.
    if (!site.has_best && site.stage == Site::Stage::fresh) workshop.step_site(site);
    std::string text = "operation " + operation_text(site.op) + "\n\n";
    if (auto computation = jit::computation_of(site.op)) text += computation->print() + "\n";
    text += format("flops     %.0f, compulsory bytes %.0f\n\nsketches\n", jit::flops_of(site.op),
                   jit::compulsory_bytes_of(site.op));
    const jit::Isa isa = workshop.settings().isa;
    for (const jit::Sketch& sketch : jit::sketches_of(site.op, isa)) {
        text += "  " + sketch.base.print() + "\n      by " + sketch.rules + "\n";
    }
    if (!site.has_best) return void(write(text + "\nno plan: " + site.note + "\n", true));
    text += "\nschedule  " + site.best.schedule.print() + "\n" + evidence_of(site);
    if (auto plan = jit::lower(site.op, site.best.schedule, isa))
        text += "\nnest\n" + jit::print_plan(*plan);
    write(text, false);
    for (const KernelRef& kernel : site.best.kernels) {
        text = "\nmicrokernel " + kernel->blob.spec.print() +
               format(" (%u bytes)\n", kernel->blob.text_bytes);
        if (auto report = workshop.kernels().inspect(*kernel)) {
            text += format("  innermost loop: %d multiply-adds, %d loads; static check: %s\n",
                           report->fma_count, report->load_count,
                           report->accepted ? "passed" : report->reason.c_str());
            text += report->disassembly;
        } else {
            text += "  " + report.error().message + "\n";
        }
        if (!write(text, false)) return;
    }
    write("", true);
}

std::string progress_of(const Site& site, double now, double seconds) {
    if (site.best_ns <= 0) {
        return format("# %5.1f of %.0f s, %s\n", now, seconds,
                      site.has_best ? "timing the first plan" : "verifying a first plan");
    }
    return format("# %5.1f of %.0f s, %lld trials, best %.2f us, share of the bound %.2f\n", now,
                  seconds, static_cast<long long>(site.trials), site.best_ns * 1e-3,
                  site.bound_ns / site.best_ns);
}

void tune(Workshop& workshop, std::string row, const WriteReply& write) {
    double seconds = kTuneSeconds;
    const size_t space = row.find_last_of(' ');
    if (space != std::string::npos && row.find('=', space) == std::string::npos) {
        seconds = std::strtod(row.c_str() + space, nullptr);
        row.resize(space);
    }
    auto found = site_of(workshop, row);
    if (!found) return void(write("error: " + found.error().message + "\n", true));
    Site& site = **found;
    const int64_t began = base::steady_ns();
    double last = -1;
    for (;;) {
        const double now = static_cast<double>(base::steady_ns() - began) * 1e-9;
        if (now - last >= kProgressSeconds) {
            last = now;
            if (!write(progress_of(site, now, seconds), false)) break;
        }
        if (now >= seconds || !workshop.may_try() || !workshop.step_site(site)) break;
    }
    workshop.save(site);
    if (!site.has_best) return void(write("error: no plan: " + site.note + "\n", true));
    write(operation_text(site.op) + "\nschedule  " + site.best.schedule.print() + "\n" +
              evidence_of(site),
          true);
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + "\"";
}

/// The store in the form of whet_report's JSON, so that one reader serves both.
void report(Workshop& workshop, const WriteReply& write) {
    std::string text = "{\"source\": \"store\", \"sites\": [";
    bool first = true;
    long long trials = 0;
    for (const StoredPlan& plan : workshop.stored().plans) {
        trials += plan.trials;
        static constexpr const char* kStates[] = {"offered", "adopted", "declined",
                                                  "original kept"};
        const bool served = plan.state == PlanState::adopted || plan.state == PlanState::offered;
        text +=
            std::string(first ? "" : ", ") + "{\"op\": " + quoted(operation_text(plan.op)) +
            ", \"served\": " + (served ? "\"whet\"" : "\"original\"") + ", \"reason\": " +
            quoted(std::string("stored, ") + kStates[static_cast<int>(plan.state) & 3]) +
            ", \"schedule\": " + quoted(plan.schedule) +
            format(", \"calls\": 0, \"now_us\": %.4f, \"bound_us\": %.4f, \"trials\": %lld",
                   plan.time_ns * 1e-3, plan.bound_ns * 1e-3, static_cast<long long>(plan.trials));
        if (plan.low > 0) {
            text += format(", \"gain\": {\"ratio\": %.6g, \"low\": %.6g, \"high\": %.6g}",
                           plan.ratio, plan.low, plan.high);
        }
        text += "}";
        first = false;
    }
    write(text + format("], \"tuning\": {\"trials\": %lld, \"quarantined\": %zu}}\n", trials,
                        workshop.stored().quarantine.size()),
          true);
}

std::string explanation(Workshop& workshop, const whet_op& op) {
    std::string text = operation_text(op) + "\n";
    if (jit::sketches_of(op, workshop.settings().isa).empty())
        text += "no sketch fits: the original always serves\n";
    bool known = false;
    for (const StoredPlan& plan : workshop.stored().plans) {
        if (std::memcmp(&plan.op, &op, sizeof(op)) != 0) continue;
        known = true;
        static constexpr const char* kStates[] = {"verified and timed, not served yet",
                                                  "served in a program",
                                                  "right, but the program kept what it had",
                                                  "the family stays with the original library"};
        text += format("stored    %s\n", kStates[static_cast<int>(plan.state) & 3]);
        text += "schedule  " + plan.schedule + "\n";
        text += format(
            "time      %.3f us, bound %.3f us, gain %.3f [%.3f, %.3f] after %lld trials (%s)\n",
            plan.time_ns * 1e-3, plan.bound_ns * 1e-3, plan.ratio, plan.low, plan.high,
            static_cast<long long>(plan.trials), plan.conditions.c_str());
    }
    for (const QuarantinedPlan& plan : workshop.stored().quarantine) {
        if (std::memcmp(&plan.op, &op, sizeof(op)) != 0) continue;
        text += format("rejected  schedule %016llx: %s\n",
                       static_cast<unsigned long long>(plan.schedule_hash), plan.reason.c_str());
    }
    if (!known) text += "no plan in the store: the original serves until one is tuned\n";
    if (const Site* site = workshop.find_site(operation_id(op))) text += evidence_of(*site);
    return text;
}

/// A suite row names one operation; other text every stored one whose name contains it.
void explain(Workshop& workshop, const std::string& row, const WriteReply& write) {
    if (const auto parsed = parse_op_row(row))
        return void(write(explanation(workshop, canonical(*parsed)), true));
    std::vector<whet_op> found;
    const auto add = [&](const whet_op& op) {
        const bool there = std::any_of(found.begin(), found.end(), [&](const whet_op& one) {
            return std::memcmp(&one, &op, sizeof(op)) == 0;
        });
        if (!there && operation_text(op).find(row) != std::string::npos) found.push_back(op);
    };
    for (const StoredPlan& plan : workshop.stored().plans) add(plan.op);
    for (const QuarantinedPlan& plan : workshop.stored().quarantine) add(plan.op);
    if (found.empty()) {
        write("error: no stored operation contains \"" + row +
                  "\", nor is it one, such as linear m=32 k=384 n=1536\n",
              true);
        return;
    }
    std::string text;
    for (const whet_op& op : found) text += (text.empty() ? "" : "\n") + explanation(workshop, op);
    write(text, true);
}

}  // namespace

void answer_text(Workshop& workshop, const std::string& request, const WriteReply& write) {
    const size_t space = request.find(' ');
    const std::string word = request.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : request.substr(space + 1);
    if (word == "inspect") return inspect(workshop, rest, write);
    if (word == "tune") return tune(workshop, rest, write);
    if (word == "report") return report(workshop, write);
    if (word == "explain") return explain(workshop, rest, write);
    if (word == "continue") return void(write(format("%d\n", workshop.search_on()), true));
    if (word == "hold" && (rest == "on" || rest == "off")) {
        workshop.hold(rest == "on");
        return void(write(rest + "\n", true));
    }
    write("error: got request '" + word +
              "', expected inspect, tune, report, explain, continue, hold on or hold off\n",
          true);
}

}  // namespace whet::runtime::forge
