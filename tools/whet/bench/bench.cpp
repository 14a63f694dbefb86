// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/bench.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/whet/bench/live_site.hpp"
#include "tools/whet/bench/machine.hpp"
#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/paths.hpp"
#include "tools/whet/bench/peers.hpp"
#include "tools/whet/bench/self_process.hpp"
#include "tools/whet/bench/suites.hpp"

namespace whet::bench {

int bench_peak(const Options& options) {
    Machine machine = describe_machine();
    show_progress("measuring this machine");
    measure_machine(machine, options.threads);
    nlohmann::json document = to_json(machine);
    document["gflops"] = machine.peak_gflops;
    document.erase("peak_gflops");
    document["threads"] = options.threads;
    return finish_flat(options, document.dump());
}

namespace {

struct Form {
    const char* name;
    int (*run)(const Options&);
};

constexpr Form kForms[] = {
    {"peak", bench_peak}, {"dispatch", bench_dispatch},     {"tuner", bench_tuner},
    {"warm", bench_warm}, {"zero-trial", bench_zero_trial}, {"unseen", bench_unseen},
    {"app", bench_app},   {"shapes", bench_shapes},
};

void add_suite_options(CLI::App& app, Options& options, std::string& peers, bool& unfrozen) {
    app.add_option("--suite", options.suites, "path, or name of a suite in tests/bench/suites");
    app.add_option("--peers", peers, "torch, mkl-packed, openblas; separated by commas");
    app.add_option("--threads", options.threads, "threads of every side")
        ->check(CLI::Range(1, 1024));
    app.add_flag("--frozen", options.frozen, "weights are promised constant");
    app.add_flag("--unfrozen", unfrozen, "weights may change (the default)");
    app.add_option("--numerics", options.numerics, "consistent, invariant, relaxed, strict");
    app.add_option("--budget", options.budget_seconds, "seconds of tuning for each case")
        ->check(CLI::Range(0.0, 1e6));
    app.add_option("--only", options.only, "only this op of the suites");
    app.add_flag("--resume", options.resume, "go on from the cases in the file of --json");
}

void add_forms(CLI::App& app, Options& options, std::string& peers, bool& unfrozen) {
    app.add_subcommand("peak", "this machine's peak and stream bandwidth")
        ->add_option("--threads", options.threads)
        ->check(CLI::Range(1, 1024));
    app.add_subcommand("dispatch", "nanoseconds that a call through Whet adds")
        ->add_option("--callers", options.callers, "threads that call at once")
        ->check(CLI::Range(1, 256));
    CLI::App* tuner =
        app.add_subcommand("tuner", "how fast candidates are built, verified and timed");
    tuner->add_option("--suite", options.suites);
    tuner->add_option("--candidates", options.candidates)
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
    tuner->add_option("--forge", options.forge)->check(CLI::IsMember({"process", "thread"}));
    app.add_subcommand("warm", "from the first call of a fresh process to all plans published")
        ->add_option("--plans", options.plans)
        ->check(CLI::Range(int64_t{1}, int64_t{4096}));
    app.add_subcommand("shapes", "what many distinct shapes cost: memory and a hit, early and late")
        ->add_option("--count", options.shapes)
        ->check(CLI::Range(int64_t{512}, int64_t{10'000'000}));
    for (const char* name : {"zero-trial", "unseen"})
        add_suite_options(
            *app.add_subcommand(name, "see docs: plan before tuning; row counts never tuned"),
            options, peers, unfrozen);
    CLI::App* program =
        app.add_subcommand("app", "latency of a program that answers lines, with and without Whet");
    program->add_option("--input", options.input, "the lines to send")->required();
    program->add_option("--blocks", options.blocks)->check(CLI::Range(3, 100000));
    program->add_option("--requests", options.requests, "lines of one block")
        ->check(CLI::Range(1, 10000000));
    program->add_flag("--busy", options.busy, "keep every other core busy");
    program->footer(
        "The program follows --:  whet bench app --input FILE -- COMMAND [ARGUMENT...]");
    for (CLI::App* form : app.get_subcommands(nullptr))
        form->add_option("--json", options.json, "write the result");
}

int wrong_use(const std::string& text) {
    complain(text);
    return kWrongUse;
}

/// Ends the process without taking LibTorch apart: Whet's background may be in a call of the
/// original at this moment.
int leave(int exit_code) {
    show_progress("");
    std::fflush(nullptr);
    _exit(exit_code);
}

/// Keeps freed memory in the process. By glibc's defaults the order of two releases decides whether
/// a destination of some megabytes is given back to the system after every call, and its pages are
/// made anew for the next: up to a seventh of a call, on either side by chance.
void keep_freed_memory() {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that glibc accepts
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

int run_form(const CLI::App& app, Options& options) {
    TemporaryFolder folder;
    if (folder.path().empty()) {
        complain("cannot make a temporary folder");
        return kFailed;
    }
    prepare_environment(options, folder.path());
    install_stop_handler();
    for (const Form& form : kForms)
        if (app.got_subcommand(form.name)) return form.run(options);
    return bench_suites(options);
}

}  // namespace
}  // namespace whet::bench

int bench_main(int argc, char** argv) {
    using namespace whet::bench;
    end_with_parent();
    Options options;
    options.arguments.assign(argv, argv + argc);
    options.arguments[0] = "bench";
    std::string peers = "torch";
    bool unfrozen = false;
    CLI::App app{"Compares Whet with other libraries, side by side in one process", "whet bench"};
    app.require_subcommand(0, 1);
    add_suite_options(app, options, peers, unfrozen);
    app.add_option("--json", options.json, "write the result as JSON");
    add_forms(app, options, peers, unfrozen);
    // What follows the first -- belongs to the program alone, further -- included.
    const auto separator = std::find_if(
        argv + 1, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
    if (separator != argv + argc) options.command.assign(separator + 1, argv + argc);
    try {
        app.parse(static_cast<int>(separator - argv), argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kDone : kWrongUse;
    }
    options.peers = split_names(peers);
    if (options.frozen && unfrozen) return wrong_use("--frozen and --unfrozen exclude each other");
    if (options.resume && options.json.empty()) return wrong_use("--resume needs --json");
    const bool needs_suite = app.get_subcommands().empty() || app.got_subcommand("zero-trial") ||
                             app.got_subcommand("unseen");
    if (app.got_subcommand("app") == options.command.empty())
        return wrong_use(options.command.empty() ? "expected -- COMMAND"
                                                 : "only app takes a COMMAND after --");
    if (needs_suite && options.suites.empty()) return wrong_use("expected --suite FILE");
    keep_freed_memory();
    try {
        int exit_code = kDone;
        const bool child = (app.got_subcommand("warm") && run_warm_role(options, &exit_code)) ||
                           (app.get_subcommands().empty() && run_family_role(options, &exit_code));
        return leave(child ? exit_code : run_form(app, options));
    } catch (const std::invalid_argument& error) {
        return wrong_use(error.what());
    } catch (const std::exception& error) {
        complain(error.what());
        return kFailed;
    }
}
