// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/live_site.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "tools/whet/bench/machine.hpp"
#include "tools/whet/bench/reference.hpp"
#include "tools/whet/bench/team.hpp"

namespace whet::bench {
namespace {

constexpr int64_t kBurstNs = 2'000'000;        // of calls to one site, then the next
constexpr int64_t kRestPerBusy = 4;            // a live program that is busy a fifth of its time
constexpr int64_t kLeastTuneNs = 300'000'000;  // before the first question whether all is settled
constexpr int64_t kAskEveryNs = 100'000'000;
constexpr int64_t kNoProgressNs = 2'000'000'000;  // of packing in the background

volatile std::sig_atomic_t stop_flag = 0;
void on_stop(int) { stop_flag = 1; }

}  // namespace

bool stop_requested() { return stop_flag != 0; }

void install_stop_handler() {
    struct sigaction action{};
    action.sa_handler = on_stop;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second one ends the process
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

const Original* Original::make(const Case& one, const std::vector<Peer>& candidates) {
    auto* original = new Original;  // never released, see the class
    original->shape_ = one.shape;
    for (const Peer& peer : candidates) {
        if (peer.name == "mkl-packed") continue;  // packs its weights outside the call
        char error[256];
        const float* const none[] = {nullptr};
        original->runnable_ = peer.module->make(peer.name.c_str(), &one.shape, nullptr, none, 0,
                                                nullptr, error, sizeof error);
        if (!original->runnable_) continue;
        original->module_ = peer.module;
        original->name_ = peer.name;
        break;
    }
    return original;
}

void Original::run(float* dst, const float* a, const float* b, const float* bias) const {
    if (module_)
        module_->run_into(runnable_, dst, a, b, bias);
    else
        compute_reference(shape_, dst, a, b, bias);
}

void Original::time(float* dst, const float* a, const float* b, const float* bias) const {
    if (module_)
        module_->time_into(runnable_, dst, a, b, bias);
    else
        compute_reference(shape_, dst, a, b, bias);
}

Runnable Original::on(const float* a, const Weights& weights) const {
    if (!module_) return {};
    char error[256];
    return Runnable(module_->make(name_.c_str(), &shape_, a, weights.copies().data(),
                                  static_cast<int64_t>(weights.copies().size()), weights.bias(),
                                  error, sizeof error),
                    RunnableDeleter{module_});
}

LiveSite::LiveSite(const Case& one, std::shared_ptr<const Weights> weights, bool frozen,
                   int threads, const Original* original, Allocator allocator)
    : case_(one), weights_(std::move(weights)), original_(original), allocator_(allocator) {
    dst_bytes_ = static_cast<size_t>(count_of(one.dst_extents())) * sizeof(float);
    a_count_ = count_of(one.a_extents());
    a_ = random_floats(a_count_ + static_cast<int64_t>(kLayoutSlack / sizeof(float)), 1);
    operands_[WHET_A] = a_.get();
    operands_[WHET_BIAS] = const_cast<float*>(weights_->bias());
    direct_ = original->on(a_.get(), *weights_);
    whet_op op;
    if (describe(one, frozen, &op) != WHET_OK || whet_op_set_threads(&op, threads) != WHET_OK ||
        whet_site_get(&op, &site_) != WHET_OK) {
        site_ = nullptr;
        return;
    }
    operand_count_ = static_cast<int>(op.operand_count);
    if (threads > 1)
        team_ =
            &openmp_team();  // and the originals run on as many: only live calls tell their time
    else
        whet_site_set_original(site_, &LiveSite::background, const_cast<Original*>(original));
}

whet_status LiveSite::call_site() {
    return team_ ? whet_site_call_on(site_, operands_, operand_count_, team_, &LiveSite::fallback,
                                     this)
                 : whet_site_call(site_, operands_, operand_count_, &LiveSite::fallback, this);
}

void LiveSite::fallback(void* user) {
    auto& self = *static_cast<LiveSite*>(user);
    ++self.fallbacks_;
    self.last_served_ = false;
    void* const* operands = self.operands_;
    auto* dst = static_cast<float*>(operands[WHET_DST]);
    if (self.direct_ && !self.exact_) {
        const bench_peer* const module = self.direct_.get_deleter().module;
        if (self.own_result_)
            module->run(self.direct_.get(), self.copy_);
        else
            module->run_at(self.direct_.get(), self.copy_, dst);
        return;
    }
    self.original_->run(dst, static_cast<const float*>(operands[WHET_A]),
                        static_cast<const float*>(operands[WHET_B]),
                        static_cast<const float*>(operands[WHET_BIAS]));
}

void LiveSite::background(const whet_op* op, void* const* operands, void* context) {
    static_cast<const Original*>(context)->time(
        static_cast<float*>(operands[WHET_DST]), static_cast<const float*>(operands[WHET_A]),
        op->operand_count > WHET_B ? static_cast<const float*>(operands[WHET_B]) : nullptr,
        op->operand_count > WHET_BIAS ? static_cast<const float*>(operands[WHET_BIAS]) : nullptr);
}

int64_t LiveSite::next_copy() {
    if (++copy_ == copies()) copy_ = 0;
    operands_[WHET_B] = const_cast<float*>(weights_->copies()[static_cast<size_t>(copy_)]);
    return copy_;
}

void LiveSite::lay_out(int layout) {
    float* const place =
        a_.get() + page_offset(static_cast<uint32_t>(layout), WHET_A) / sizeof(float);
    if (place == a()) return;
    std::memmove(place, a(), static_cast<size_t>(a_count_) * sizeof(float));
    operands_[WHET_A] = place;
    if (direct_) direct_.get_deleter().module->move_a(direct_.get(), place);
}

void LiveSite::call() {
    // An operation that the original serves allocates its own result, as it does under an
    // integration; a plan that begins to serve in this very call writes to memory that is kept.
    const bool own_result = !last_served_ && direct_;
    if (own_result && !kept_)
        kept_ = random_floats(static_cast<int64_t>(dst_bytes_ / sizeof(float)), 6);
    operands_[WHET_DST] = own_result ? kept_.get() : allocator_.allocate(dst_bytes_);
    own_result_ = own_result;
    next_copy();
    ++total_;
    last_served_ = true;
    if (!site_ || call_site() != WHET_OK) fallback(this);
    if (!own_result) allocator_.release(operands_[WHET_DST], dst_bytes_);
    own_result_ = false;
}

void LiveSite::call_original() {
    next_copy();
    if (direct_) {
        direct_.get_deleter().module->run(direct_.get(), copy_);
        return;
    }
    auto* const dst = static_cast<float*>(allocator_.allocate(dst_bytes_));
    original_->run(dst, a(), static_cast<const float*>(operands_[WHET_B]), weights_->bias());
    allocator_.release(dst, dst_bytes_);
}

double LiveSite::difference() {
    const auto count = static_cast<int64_t>(dst_bytes_ / sizeof(float));
    const Floats expected = random_floats(count, 4), got = random_floats(count, 5);
    operands_[WHET_DST] = expected.get();
    next_copy();
    const int64_t before = fallbacks_;
    exact_ = true;
    fallback(this);
    operands_[WHET_DST] = got.get();
    if (site_)
        call_site();
    else
        fallback(this);
    fallbacks_ = before;
    exact_ = false;
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < count; ++i) {
        const double value = expected[static_cast<size_t>(i)];
        largest = std::max(largest, std::fabs(value));
        const double error = std::fabs(value - double{got[static_cast<size_t>(i)]});
        difference = error <= difference ? difference : error;  // a NaN stays
    }
    return difference / std::max(largest, 1e-30);
}

double tune_live(const std::vector<LiveSite*>& sites, double seconds,
                 const std::function<void(double)>& progress) {
    const int64_t begin = now_ns(), end = begin + static_cast<int64_t>(seconds * 1e9);
    int64_t next_question = begin + kLeastTuneNs;
    bool any_known = false;
    for (const LiveSite* site : sites) any_known = any_known || site->known();
    if (!any_known) return 0;
    while (now_ns() < end && !stop_requested()) {
        const int64_t round = now_ns();
        for (LiveSite* site : sites) {
            if (!site->known()) continue;
            const int64_t burst_end = now_ns() + kBurstNs;
            do site->call();
            while (now_ns() < burst_end);
            if (now_ns() >= end || stop_requested()) break;
        }
        const int64_t now = now_ns();
        if (progress) progress(static_cast<double>(now - begin) * 1e-9);
        if (now >= next_question) {
            next_question = now + kAskEveryNs;
            if (whet_drain(0) == WHET_OK) break;
        }
        const int64_t rest =
            std::min(kRestPerBusy * (now - round), std::max<int64_t>(end - now, 0));
        std::this_thread::sleep_for(std::chrono::nanoseconds(rest));
    }
    return static_cast<double>(now_ns() - begin) * 1e-9;
}

void visit_all_weights(const std::vector<LiveSite*>& sites, double seconds) {
    const int64_t end = now_ns() + static_cast<int64_t>(seconds * 1e9);
    for (LiveSite* site : sites) {
        int64_t fewest = site->copies() + 1, progress = now_ns();
        while (site->known() && now_ns() < end && !stop_requested()) {
            const int64_t before = site->fallbacks();
            for (int64_t copy = 0; copy < site->copies() && now_ns() < end; ++copy) site->call();
            const int64_t missed = site->fallbacks() - before;
            if (missed < fewest) progress = now_ns();
            fewest = std::min(fewest, missed);
            // All to the original is no plan at all, which no packing will change.
            if (missed == 0 || missed == site->copies() || now_ns() - progress > kNoProgressNs)
                break;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }
}

}  // namespace whet::bench
