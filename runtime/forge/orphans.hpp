// SPDX-License-Identifier: Apache-2.0
// Who would inherit an orphaned helper: a process that runs Whet must not, for its wait calls would
// see a stranger.
#pragma once

namespace whet::runtime::forge {

/// True when this process would inherit an orphaned helper (PID 1, or a child subreaper).
bool host_reaps_orphans() noexcept;

/// To be called when the runtime is made, before every fork and now and then: when this process
/// reaps orphans, processes that it forks know it, and those that it executes can read it off its
/// memory map (being a subreaper can be read nowhere else from outside).
void note_reaping() noexcept;

/// True when a process that runs Whet would inherit the helper: this one, one it was forked from,
/// one further up that called note_reaping, or the first process of the namespace if it has a
/// library of Whet. A program that becomes a subreaper after its children have started helpers
/// is not foreseen. Reads the maps of all ancestors, about a millisecond.
bool program_would_see_helper();

}  // namespace whet::runtime::forge
