// SPDX-License-Identifier: Apache-2.0
// A program that reads lines and answers each with one line, over two pipes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace whet::bench {

/// Owns the child. Not thread-safe.
class LineProgram {
public:
    LineProgram() = default;
    ~LineProgram();
    LineProgram(const LineProgram&) = delete;
    LineProgram& operator=(const LineProgram&) = delete;

    /// Starts the command with this environment (NAME=value). Returns an empty string, or why it
    /// did not start.
    std::string start(const std::vector<std::string>& command,
                      const std::vector<std::string>& environment);
    /// Sends a line and waits for the answer. Negative: the program ended or was silent for
    /// `timeout_seconds`; else the nanoseconds from the line written to the answer read.
    int64_t ask(const std::string& line, double timeout_seconds, std::string* answer = nullptr);
    /// Closes its standard input and waits; ends it when it stays for `seconds`. Returns its exit
    /// status.
    int finish(double seconds);
    pid_t pid() const { return pid_; }

private:
    pid_t pid_ = -1;
    int to_ = -1, from_ = -1;
    std::string buffer_;
};

}  // namespace whet::bench
