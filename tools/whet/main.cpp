// SPDX-License-Identifier: Apache-2.0
// The command line `whet`: reads the arguments and calls the command.
#include <whet/whet.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/whet/commands/commands.hpp"
#include "tools/whet/run/run.hpp"
#ifdef WHET_HAVE_BENCH
#include "tools/whet/bench/bench.hpp"
#endif

namespace whet::tools {
namespace {

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

/// The options of all commands, where CLI11 puts what it reads.
struct Arguments {
    RunOptions run;
    std::vector<std::string> operation;
    std::string shape, file;
    std::optional<std::int32_t> pid;
    std::int32_t control_pid = 0;
    std::string control_command;
    bool json = false, html = false;
};

void declare(CLI::App& app, Arguments& arguments) {
    app.require_subcommand(1);
    app.set_version_flag("--version", std::string(whet_version()));

    CLI::App* run = app.add_subcommand("run", "run a command under Whet and show what it gained");
    run->add_option("--json", arguments.run.json_path, "write the report to a file");
    run->footer("The command follows --:  whet run --json gains.json -- python app.py");

    CLI::App* tune = app.add_subcommand("tune", "tune an operation into the store");
    tune->add_option("op", arguments.operation, "a suite row: linear m=32 k=384 n=1536")
        ->required();
    CLI::App* inspect =
        app.add_subcommand("inspect", "show sketches, schedule, nest and microkernels");
    inspect->add_option("op", arguments.operation, "a suite row, or a part of a known shape's name")
        ->required();

    CLI::App* report =
        app.add_subcommand("report", "show gains and cost of a process or of the store");
    report->add_flag("--json", arguments.json, "as JSON");
    report->add_flag("--html", arguments.html, "as a page")->excludes("--json");
    auto* const pid =
        report->add_option("pid", arguments.pid, "a process that runs under whet run");
    report->add_option("--from", arguments.file, "a file that whet run --json wrote")
        ->excludes(pid);

    CLI::App* explain = app.add_subcommand("explain", "say why a shape is served as it is");
    explain->add_option("shape", arguments.shape, "a part of the shape's name")->required();
    explain->add_option("pid", arguments.pid, "a process that runs under whet run");

    CLI::App* control = app.add_subcommand("ctl", "steer a process that runs under whet run");
    control->add_option("pid", arguments.control_pid)->required();
    control
        ->add_option("command", arguments.control_command,
                     "enable, disable, pause, resume, pin, drain, report")
        ->required();
    app.add_subcommand("bench", "measure side by side (whet bench --help)");
}

int run_subcommand(const CLI::App& app, const Arguments& arguments) {
    if (app.got_subcommand("run")) return run_command(arguments.run);
    if (app.got_subcommand("tune")) return ask("tune " + joined(arguments.operation));
    if (app.got_subcommand("inspect")) return ask("inspect " + joined(arguments.operation));
    if (app.got_subcommand("explain")) return explain(arguments.shape, arguments.pid);
    if (app.got_subcommand("ctl")) return control(arguments.control_pid, arguments.control_command);
    if (app.got_subcommand("report")) {
        return report({arguments.pid, arguments.file}, arguments.html   ? ReportFormat::html
                                                       : arguments.json ? ReportFormat::json
                                                                        : ReportFormat::text);
    }
    std::fputs("whet: this build has no bench\n", stderr);
    return kExitFailed;
}

int main_without_throwing(int argc, char** argv) {
#ifdef WHET_HAVE_BENCH
    if (argc >= 2 && std::strcmp(argv[1], "bench") == 0) return bench_main(argc - 1, argv + 1);
#endif
    Arguments arguments;
    // What follows the first -- of `run` belongs to the command alone, further -- included.
    if (argc >= 2 && std::strcmp(argv[1], "run") == 0) {
        const auto separator = std::find_if(
            argv + 2, argv + argc, [](const char* word) { return std::strcmp(word, "--") == 0; });
        if (separator != argv + argc) arguments.run.command.assign(separator + 1, argv + argc);
        argc = static_cast<int>(separator - argv);
    }
    CLI::App app(
        "Whet sharpens a program while it runs: it tunes the tensor operations that the program "
        "performs.",
        "whet");
    declare(app, arguments);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kExitDone : kExitWrongUse;
    }
    if (app.got_subcommand("run") && arguments.run.command.empty()) {
        std::fputs("whet: nothing to run: whet run [--json FILE] -- COMMAND [ARGUMENT...]\n",
                   stderr);
        return kExitWrongUse;
    }
    return run_subcommand(app, arguments);
}

}  // namespace
}  // namespace whet::tools

int main(int argc, char** argv) {
    try {
        return whet::tools::main_without_throwing(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "whet: %s\n", error.what());
        return whet::tools::kExitFailed;
    }
}
