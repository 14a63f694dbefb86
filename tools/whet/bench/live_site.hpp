// SPDX-License-Identifier: Apache-2.0
// A case as a live program runs it under Whet: its site, its original, its operands; and the loop
// that lets it tune.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <whet/whet.h>

#include "tools/whet/bench/buffers.hpp"
#include "tools/whet/bench/case.hpp"
#include "tools/whet/bench/peers.hpp"

namespace whet::bench {

/// The implementation that Whet would replace. Lives as long as the process: the background may
/// call it at any time.
class Original {
public:
    /// From the first peer that can compute the case, else the bench's own loops.
    static const Original* make(const Case& one, const std::vector<Peer>& candidates);
    void run(float* dst, const float* a, const float* b, const float* bias) const;
    /// The same for the sake of its time: the answer need not be in dst.
    void time(float* dst, const float* a, const float* b, const float* bias) const;
    /// The same implementation on a site's own operands, as the application calls it; null: the
    /// bench's own loops.
    Runnable on(const float* a, const Weights& weights) const;
    const std::string& name() const { return name_; }

private:
    bench_shape shape_{};
    const bench_peer* module_ = nullptr;
    bench_runnable* runnable_ = nullptr;
    std::string name_ = "reference";
};

/// One case under Whet. Not thread-safe.
class LiveSite {
public:
    LiveSite(const Case& one, std::shared_ptr<const Weights> weights, bool frozen, int threads,
             const Original* original, Allocator allocator);

    /// One call as the application makes it: allocates the destination, calls, releases. Turns to
    /// the next weights.
    void call();
    void calls(int64_t count) {
        for (int64_t i = 0; i < count; ++i) call();
    }
    /// The same call made of the original directly, past Whet.
    void call_original();
    /// Turns to the next weights and says which: two sides that are compared take turns, for one
    /// that follows the other's steps finds its weights in the last-level cache.
    int64_t next_copy();
    /// Moves the activations to where a layout has them.
    void lay_out(int layout);
    /// Touches the activations.
    void warm() const { touch(a(), a_count_); }
    /// Calls that the original answered, of all.
    int64_t fallbacks() const { return fallbacks_; }
    int64_t total_calls() const { return total_; }
    /// Whether the last call was answered by a plan.
    bool last_was_served() const { return last_served_; }
    /// Whether Whet knows the operation at all; if not, every call goes to the original directly.
    bool known() const { return site_ != nullptr; }
    whet_site* site() const { return site_; }
    const Case& one() const { return case_; }
    const float* a() const { return static_cast<const float*>(operands_[WHET_A]); }
    const Weights& weights() const { return *weights_; }
    int64_t copies() const { return static_cast<int64_t>(weights_->copies().size()); }
    /// The largest difference between Whet's answer now and the original's, relative to the largest
    /// magnitude.
    double difference();

private:
    static void fallback(void* user);
    /// By its plan, or the original.
    whet_status call_site();
    static void background(const whet_op* op, void* const* operands, void* context);

    Case case_;
    std::shared_ptr<const Weights> weights_;
    const Original* original_;
    Runnable direct_;  ///< the original on this site's operands
    Allocator allocator_;
    whet_site* site_ = nullptr;
    const whet_executor* team_ = nullptr;  ///< of several threads
    int operand_count_ = 0;
    size_t dst_bytes_ = 0;
    Floats a_;
    int64_t a_count_ = 0;
    void* operands_[WHET_MAX_OPERANDS] = {};
    int64_t fallbacks_ = 0, total_ = 0;
    bool last_served_ = false;
    Floats kept_;  ///< result of calls that the original serves, where a plan may come in between
    bool own_result_ = false;  ///< this call's original allocates its result
    bool exact_ = false;       ///< the original's answer is looked at
    int64_t copy_ = 0;         ///< of the weights, in this call
};

/// Whether the user asked to stop (SIGINT or SIGTERM); install_stop_handler makes it so.
bool stop_requested();
void install_stop_handler();

/// Calls the sites as a live program would (a fifth of the time; sites in turn, equal times) until
/// the tuning is settled or `seconds` are over. Returns the seconds spent. `progress` is called now
/// and then with the seconds so far.
double tune_live(const std::vector<LiveSite*>& sites, double seconds,
                 const std::function<void(double)>& progress);

/// Calls every site on every copy of its weights until none goes to the original any more, or
/// nothing changes, or `seconds` are over: packing of frozen weights happens in the background.
void visit_all_weights(const std::vector<LiveSite*>& sites, double seconds);

}  // namespace whet::bench
