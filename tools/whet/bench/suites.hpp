// SPDX-License-Identifier: Apache-2.0
// What the forms over suites share: cases by family, tuned live, compared with peers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/whet/bench/live_site.hpp"
#include "tools/whet/bench/options.hpp"
#include "tools/whet/bench/result.hpp"

namespace whet::bench {

/// The peers of a run, the candidates for originals (torch and openblas where they can be opened)
/// and the allocator.
struct Party {
    std::vector<Peer> peers, originals;
    Allocator allocator{};
};
/// Throws std::runtime_error when a peer that was asked for is missing.
Party open_party(const Options& options);

/// The cases of all suites that `--only` lets pass. Throws std::invalid_argument.
std::vector<Case> load_cases(const Options& options);

/// The cases of one family under Whet; they share their weights.
class FamilyRun {
public:
    FamilyRun(const std::vector<Case>& cases, const Options& options, const Party& party,
              double last_level_bytes);

    /// Tunes all sites together, `seconds` for each.
    void tune(double seconds, const std::string& label);
    /// Times one site against every peer and against itself. Call while Whet is paused.
    CaseResult compare(size_t index, const Machine& machine) const;
    LiveSite& site(size_t index) const { return *sites_[index]; }
    size_t size() const { return sites_.size(); }
    /// Adds a case of the same family (a row count that was not tuned).
    size_t add(const Case& one);
    std::vector<LiveSite*> all() const;

private:
    const Options& options_;
    const Party& party_;
    std::shared_ptr<const Weights>
        shared_;  ///< of an operator with weights; else every case has its own operand b
    double last_level_bytes_;
    std::vector<std::unique_ptr<LiveSite>> sites_;
    double tune_seconds_ = 0, trials_ = 0, compiles_ = 0;  ///< a case's share
};

/// Families in the order of their first case.
std::vector<std::vector<Case>> by_family(const std::vector<Case>& cases);

/// What the environment of a run must hold before libwhet looks at it: an empty store, numerics,
/// what was asked for.
void prepare_environment(const Options& options, const std::string& folder);

}  // namespace whet::bench
