// SPDX-License-Identifier: Apache-2.0
// The forge's work: sites, zero-trial plans, planted candidates, verdicts, the store. The search
// itself: search.cpp.
#include "runtime/forge/workshop.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/host.hpp"
#include "base/text_file.hpp"
#include "runtime/dispatch/operation.hpp"

namespace whet::runtime::forge {
namespace {

using base::Code;
using base::make_error;

constexpr int64_t kSettledTrials =
    300;  ///< a stored plan with so many trials behind it is left alone
constexpr double kRestedNs =
    60e9;  ///< ... until the program spent twice this on it, or twice what it had
constexpr int kAheadAtOnce = 16;  ///< stored plans offered ahead in one step: half a millisecond
constexpr size_t kZeroTrialDrafts = 8;  ///< candidates looked at for a first plan
constexpr size_t kMostPending = 256;               ///< changes of the store that may wait
constexpr int64_t kWritePauseNs = 5'000'000'000;  ///< between two attempts of them
constexpr size_t kLayoutDrafts = 512;   ///< drafts looked through for those of one packed layout
constexpr int64_t kZeroTrialReferenceNs =
    10'000'000;  ///< a first plan must come within milliseconds
constexpr int64_t kPlantReferenceNs =
    1'000'000'000;  ///< a foreign candidate is compared with all that a second gives

jit::MachineModel model_of(jit::Isa isa) {
    const base::Host host = base::describe_host();
    jit::MachineModel model;
    model.isa = isa;
    model.cycles_per_ns = base::cycles_per_ns();
    if (host.caches.l1_data_bytes > 0)
        model.l1_bytes = static_cast<double>(host.caches.l1_data_bytes);
    if (host.caches.l2_bytes > 0) model.l2_bytes = static_cast<double>(host.caches.l2_bytes);
    if (host.caches.last_level_bytes > 0) {
        model.l3_bytes = static_cast<double>(host.caches.last_level_bytes) /
                         std::max(1, host.caches.last_level_cores);
    }
    return model;
}

}  // namespace

Workshop::Workshop(const WorkshopSettings& settings, std::unique_ptr<Executor> executor,
                   std::unique_ptr<Store> store, Outbox& outbox)
    : settings_(settings),
      executor_(std::move(executor)),
      store_(std::move(store)),
      outbox_(outbox),
      kernels_(settings.directory, settings.own_process,
               [&outbox](const std::string& line) { outbox.log(base::Level::warning, line); }) {
    auto made = policy::make_policy(settings.options.policy, settings.options.seed);
    if (!made)
        made = policy::make_policy("auto",
                                   settings.options.seed);  // env.hpp has refused the name already
    policy_ = std::move(*made);
    log_trials_ = settings_.options.log.find("debug") != std::string::npos;
    if (store_ == nullptr) return;
    auto contents = store_->load();
    if (!contents) {
        outbox_.log(base::Level::warning,
                    "store unreadable, tuning without it: " + contents.error().message);
        store_.reset();
        return;
    }
    stored_ = std::move(*contents);
    if (const size_t refused = stored_.damaged_rows + stored_.refused_blobs; refused > 0) {
        outbox_.log(base::Level::warning,
                    "store " + settings_.options.store_path + ": " + std::to_string(refused) +
                        " rows are damaged or made elsewhere: not used");
    }
    for (size_t i = 0; i < stored_.plans.size(); ++i) {
        const StoredPlan& plan = stored_.plans[i];
        stored_index_[base::hash_bytes(&plan.op, sizeof(whet_op))] = i;
        if (plan.state == PlanState::adopted) stored_families_[family_id(plan.op)].push_back(i);
    }
    kernels_.add_stored(std::move(stored_.blobs));
    stored_.blobs.clear();
    const std::string lock = settings_.options.store_path + ".measure";
    measure_lock_.reset(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

Workshop::~Workshop() = default;

void Workshop::make_space(Site& site) {
    // Not before it is needed: measuring the clock takes a millisecond of a warm start.
    if (!model_) model_ = model_of(settings_.isa);
    site.space = jit::make_space(site.op, *model_);
}

Site* Workshop::find_site(SiteId id) {
    const auto found = sites_.find(id);
    return found == sites_.end() ? nullptr : found->second.get();
}

const MachineRecord& Workshop::machine() {
    if (stored_.machine.peak_gflops > 0) return stored_.machine;
    doing_ = "measure the machine";
    // The spec that feeds the multiply-add units best: many accumulators, both operands from the
    // first-level cache.
    KernelRef kernel;
    const bool wide = settings_.isa == jit::Isa::avx512;
    for (const int rows : wide ? std::vector<int>{14, 12, 13, 8} : std::vector<int>{6, 5, 4}) {
        for (const int unroll : {4, 2, 8, 1}) {
            jit::MicrokernelSpec spec;
            spec.isa = settings_.isa;
            spec.rows = static_cast<uint8_t>(rows);
            spec.vectors = 2;
            spec.unroll = static_cast<uint8_t>(unroll);
            for (const jit::ScalarForm form :
                 {jit::ScalarForm::packed, jit::ScalarForm::rows_strided}) {
                spec.scalar = form;
                if (kernel == nullptr && settings_.isa != jit::Isa::portable &&
                    kernels_.ready(spec)) {
                    auto ready = kernels_.kernel(spec, false);
                    if (ready) kernel = *ready;
                }
            }
        }
    }
    auto record = executor_->measure_machine(kernel.get());
    if (!record) {
        if (!lost())
            outbox_.log(base::Level::warning,
                        "the machine could not be measured: " + record.error().message);
        stored_.machine = {1, 1};
        return stored_.machine;
    }
    stored_.machine = *record;
    if (kernel != nullptr) {
        change_store([record = *record](Store& store) { return store.save_machine(record); });
    }
    return stored_.machine;
}

Site& Workshop::make_site(const SiteMessage& message) {
    auto site = std::make_unique<Site>();
    site->id = message.site;
    site->family = message.family;
    site->op = message.op;
    for (const QuarantinedPlan& plan : stored_.quarantine) {
        if (std::memcmp(&plan.op, &message.op, sizeof(whet_op)) == 0)
            site->refused.insert(plan.schedule_hash);
    }
    Site& added = *site;
    sites_.emplace(message.site, std::move(site));
    families_[message.family].sites.push_back(&added);
    return added;
}

void Workshop::add_site(const SiteMessage& message) {
    if (sites_.contains(message.site)) return;
    Site& added = make_site(message);
    if (const auto found = stored_families_.find(message.family); found != stored_families_.end()) {
        ahead_.insert(ahead_.end(), found->second.begin(), found->second.end());
        stored_families_.erase(found);
    }
    if (auto fits = check_operands(
            added.op,
            static_cast<size_t>(settings_.options.budget_memory_bytes.value_or(512 << 20)));
        !fits) {
        added.stage = Site::Stage::closed;
        added.note = fits.error().message;
        return;
    }
    if (offer_stored(added)) return;
    fresh_.push_back(added.id);
}

bool Workshop::offer_stored(Site& site) {
    const auto found = stored_index_.find(base::hash_bytes(&site.op, sizeof(whet_op)));
    if (found == stored_index_.end() || !settings_.options.force.empty()) return false;
    const StoredPlan* const plan = &stored_.plans[found->second];
    if (std::memcmp(&plan->op, &site.op, sizeof(whet_op)) != 0) return false;
    site.stored_trials = plan->trials;
    if (plan->state == PlanState::original_kept || plan->state == PlanState::declined) return false;
    auto schedule = jit::Schedule::parse(plan->schedule);
    if (!schedule || site.refused.contains(jit::hash_of(*schedule))) return false;
    auto prepared =
        prepare(site, *schedule, false);  // blobs made elsewhere: a hint only, tried like any draft
    if (!prepared || !layout_fits(site, prepared->plan)) return false;
    Family& family = families_[site.family];
    family.layout = prepared->plan.frozen[WHET_B].id;
    family.planned = true;
    site.best = std::move(prepared->candidate);
    site.has_best = true;
    site.best_ns = plan->time_ns;
    site.bound_ns = plan->bound_ns;
    site.ratio = plan->ratio;
    site.low = plan->low;
    site.high = plan->high;
    site.served = plan->state == PlanState::adopted;
    const bool was_lent = plan->time_ns == 0 && plan->trials == 0;
    site.stage = was_lent                         ? Site::Stage::lent
                 : plan->trials >= kSettledTrials ? Site::Stage::rested
                                                  : Site::Stage::served;
    send_offer(site, OfferKind::stored, plan->state == PlanState::adopted);
    return true;
}

bool Workshop::offer_ahead() {
    for (int offered = 0; offered < kAheadAtOnce && !ahead_.empty();) {
        const whet_op& op = stored_.plans[ahead_.front()].op;
        ahead_.pop_front();
        const SiteMessage message{operation_id(op), family_id(op), op};
        if (sites_.contains(message.site)) continue;
        Site& site = make_site(message);
        site.ahead = true;
        if (offer_stored(site)) {
            ++offered;
            continue;
        }
        std::erase(families_[message.family].sites, &site);
        sites_.erase(message.site);
    }
    return !ahead_.empty();
}

void Workshop::set_profile(const ProfileMessage& message) {
    total_ns_ = 0;
    for (const ProfileEntry& entry : message.entries) {
        total_ns_ += entry.total_ns;
        Site* site = find_site(entry.site);
        if (site == nullptr) continue;
        site->calls_per_s = entry.recent_calls_per_s;
        site->total_ns = entry.total_ns;
        site->ahead = false;
        if (site->stage == Site::Stage::rested) {
            if (site->settled_total_ns == 0)
                site->settled_total_ns = std::max(entry.total_ns, kRestedNs);
            if (entry.total_ns > 2 * site->settled_total_ns) {
                site->stage = Site::Stage::served;
                site->settled_total_ns = 0;
            }
        }
        if (site->task < 0) continue;
        policy_->set_load(site->task, entry.recent_calls_per_s, compute_bound_ns(*site));
        // Geometric revisits: a settled site that has cost the program twice as much since is
        // looked at again.
        if (policy_->settled(site->task) && site->settled_total_ns > 0 &&
            entry.total_ns > 2 * site->settled_total_ns) {
            site->settled_total_ns = 0;
            policy_->reopen(site->task);
        }
    }
}

bool Workshop::layout_fits(const Site& site, const jit::Plan& plan) const {
    const auto family = families_.find(site.family);
    if (family == families_.end() || family->second.layout == 0) return true;
    return plan.frozen[WHET_B].id == family->second.layout;
}

base::Result<Workshop::PreparedPlan> Workshop::prepare(const Site& site,
                                                       const jit::Schedule& schedule,
                                                       bool may_compile) {
    WHET_TRY(jit::Plan plan, jit::lower(site.op, schedule, settings_.isa));
    return prepare(std::move(plan), schedule, may_compile);
}

base::Result<Workshop::PreparedPlan> Workshop::prepare(jit::Plan plan,
                                                       const jit::Schedule& schedule,
                                                       bool may_compile) {
    PreparedPlan prepared;
    prepared.plan = std::move(plan);
    prepared.candidate.schedule = schedule;
    if (settings_.isa == jit::Isa::portable) return prepared;
    WHET_TRY(prepared.candidate.kernels,
             kernels_.kernels(prepared.plan.kernels, may_compile, &prepared.compiled));
    return prepared;
}

uint64_t Workshop::layout_of(const Site& site) const {
    const auto family = families_.find(site.family);
    return family == families_.end() ? 0 : family->second.layout;
}

std::vector<jit::Schedule> Workshop::draft(const Site& site, size_t count, bool ready_only,
                                           uint64_t layout) {
    const size_t wanted = layout == 0 ? count : std::max(count, kLayoutDrafts);
    const auto usable = [](const jit::MicrokernelSpec& spec, void* kernels) {
        return static_cast<KernelSource*>(kernels)->ready(spec);
    };
    const bool filter = ready_only && settings_.isa != jit::Isa::portable;
    std::vector<jit::Schedule> schedules =
        jit::analytical_draft(*site.space, wanted, filter ? +usable : nullptr, &kernels_);
    if (layout == 0) return schedules;
    std::vector<jit::Schedule> fitting;
    for (const jit::Schedule& schedule : schedules) {
        if (fitting.size() == count) break;
        auto plan = jit::lower(site.op, schedule, settings_.isa);
        if (plan && plan->frozen[WHET_B].id == layout) fitting.push_back(schedule);
    }
    return fitting;
}

bool Workshop::zero_trial(Site& site) {
    working_on_ = site.id;
    doing_ = "first plan";
    site.stage = Site::Stage::served;
    if (site.space == nullptr) make_space(site);  // the policy may hold it already
    if (site.space == nullptr || site.space->sketch_count() == 0) {
        site.stage = Site::Stage::closed;
        site.note = "no sketch fits the operation";
        return false;
    }
    std::vector<jit::Schedule> schedules;
    bool forced = false;
    if (!settings_.options.force.empty()) {
        if (auto schedule = jit::Schedule::parse(settings_.options.force)) {
            schedules = {*schedule};
            forced = true;
        }
    }
    if (schedules.empty()) schedules = draft(site, kZeroTrialDrafts, true, layout_of(site));
    if (schedules.empty()) schedules = draft(site, kZeroTrialDrafts, false, layout_of(site));
    for (int attempt = 0; attempt < 2 && !site.has_best; ++attempt) {
        for (const jit::Schedule& schedule : schedules) {
            if (site.refused.contains(jit::hash_of(schedule))) continue;
            auto prepared = prepare(site, schedule, attempt > 0 || forced);
            if (!prepared) {
                if (prepared.error().code != Code::not_found) site.note = prepared.error().message;
                continue;
            }
            if (!layout_fits(site, prepared->plan)) continue;
            TrialOptions options;
            options.measure = false;
            options.reference_budget_ns = kZeroTrialReferenceNs;
            const TrialResult result = run_trial(site, prepared->candidate, nullptr, options);
            if (result.verdict != Verdict::right) {
                count_refusal(site, result, schedule.print());
                site.refused.insert(jit::hash_of(schedule));
                continue;
            }
            Family& family = families_[site.family];
            site.best = std::move(prepared->candidate);
            site.has_best = true;
            site.timed = false;
            site.best_ns = 0;
            if (family.layout == 0) {
                family.layout = prepared->plan.frozen[WHET_B].id;
                // With a forced implementation the very first plan is asked for.
                if (family.layout != 0 && settings_.options.force.empty())
                    decide_layout(site, family);
            }
            family.planned = true;
            send_offer(site, OfferKind::zero_trial);
            break;
        }
    }
    if (forced) {
        site.stage = Site::Stage::closed;
        site.note = "schedule forced";
    }
    return site.has_best;
}

void Workshop::send_offer(Site& site, OfferKind kind, bool served_before) {
    OfferMessage offer;
    offer.site = site.id;
    offer.kind = kind;
    offer.schedule = site.best.schedule.print();
    std::unordered_set<uint64_t> sent;
    for (const KernelRef& kernel : site.best.kernels) {
        if (sent.insert(kernel->id).second) offer.blobs.push_back(kernel->blob);
    }
    if (site.bound_ns == 0 && stored_.machine.peak_gflops > 0) site.bound_ns = bound_of(site);
    offer.estimate_ns = site.best_ns;
    offer.ratio = site.ratio;
    offer.low = site.low;
    offer.high = site.high;
    offer.bound_ns = site.bound_ns;
    offer.served_before = served_before;
    offer.ahead = site.ahead;
    if (site.ahead) offer.op = site.op;
    site.offered_ns = site.best_ns;
    if (site.stage == Site::Stage::lent) {
        site.lendable.clear();
    } else if (kind != OfferKind::tuned) {
        site.lendable = offer.schedule;  // of tuned ones those that the program adopts
    }
    outbox_.offer(offer);
    if (!settings_.options.dump_directory.empty()) dump(site);
}

/// WHET_DUMP: one file a site with the last offer: schedule, nest, microkernels with their
/// disassembly.
void Workshop::dump(const Site& site) {
    char name[32];
    std::snprintf(name, sizeof(name), "/%016llx.txt", static_cast<unsigned long long>(site.id));
    std::ostringstream file;
    file << "schedule " << site.best.schedule.print() << "\ntime_ns " << site.best_ns << "\n\n";
    if (auto plan = jit::lower(site.op, site.best.schedule, settings_.isa))
        file << jit::print_plan(*plan);
    for (const KernelRef& kernel : site.best.kernels) {
        file << "\nmicrokernel " << kernel->blob.spec.print() << "\n";
        if (auto report = kernels_.inspect(*kernel)) file << report->disassembly;
    }
    if (base::write_own_text(settings_.options.dump_directory + name, file.str())) return;
    outbox_.log(base::Level::warning,
                "WHET_DUMP=" + settings_.options.dump_directory + " cannot be written");
    settings_.options.dump_directory.clear();
}

double Workshop::bound_of(const Site& site) {
    const MachineRecord& record = machine();
    const double threads = std::max<uint32_t>(site.op.threads, 1);
    return jit::bound_ns(site.op, threads * record.peak_gflops, threads * record.stream_gbs);
}

void Workshop::save(const Site& site) {
    if (site.has_best && site.refused.contains(jit::hash_of(site.best.schedule))) return;
    if (store_ == nullptr || !site.has_best || !site.planted.empty()) return;
    StoredPlan plan;
    plan.op = site.op;
    plan.schedule = site.best.schedule.print();
    plan.time_ns = site.best_ns;
    plan.ratio = site.ratio;
    plan.low = site.low;
    plan.high = site.high;
    plan.bound_ns = site.bound_ns;
    plan.trials = site.stored_trials + site.trials;
    // Once a plan of this site beat the original in a program, a better one of its class does too.
    if (site.served) plan.state = PlanState::adopted;
    plan.conditions = "one thread, weights rotated through 64 MiB, activations warm";
    std::vector<jit::Blob> blobs;
    for (const KernelRef& kernel : site.best.kernels) {
        if (!kernel->proven) return;
        plan.kernels.push_back(kernel->blob.spec.print());
        blobs.push_back(kernel->blob);
    }
    change_store([plan = std::move(plan), blobs = std::move(blobs)](Store& store) {
        return store.save(plan, blobs);
    });
}

void Workshop::change_store(StoreChange change) {
    if (store_ == nullptr) return;
    if (pending_.size() == kMostPending) pending_.pop_front();
    pending_.push_back(std::move(change));
    write_pending();
}

void Workshop::write_pending() {
    if (base::steady_ns() < write_not_before_ns_) return;
    while (store_ != nullptr && !pending_.empty()) {
        const auto written = pending_.front()(*store_);
        if (!written && written.error().code == Code::out_of_budget) {
            write_not_before_ns_ = base::steady_ns() + kWritePauseNs;
            return;
        }
        pending_.pop_front();
        if (written) continue;
        outbox_.log(base::Level::warning,
                    "store unwritable, tuning without it: " + written.error().message);
        store_.reset();
        pending_.clear();
    }
}

void Workshop::quarantine(Site& site, const std::string& schedule, const std::string& reason) {
    auto parsed = jit::Schedule::parse(schedule);
    if (!parsed) return;
    site.refused.insert(jit::hash_of(*parsed));
    change_store([plan = QuarantinedPlan{site.op, jit::hash_of(*parsed), reason},
                  schedule](Store& store) { return store.quarantine(plan, schedule); });
}

void Workshop::change_state(const Site& site, const std::string& schedule, PlanState state) {
    change_store([op = site.op, schedule, state](Store& store) {
        return store.set_state(op, schedule, state);
    });
}

void Workshop::take_verdict(const VerdictMessage& message) {
    Site* site = find_site(message.site);
    if (site == nullptr) return;
    const bool about_best = site->has_best && site->best.schedule.print() == message.schedule;
    switch (message.kind) {
        case VerdictKind::adopted:
            // What came from the store unchanged is there already.
            if (!site->served || site->trials > 0) {
                site->served = true;
                save(*site);
            }
            if (site->stage != Site::Stage::lent && site->planted.empty()) {
                site->lendable = message.schedule;
                lend_again(*site);
            }
            break;
        case VerdictKind::declined:
            // Right, and the forge's own best: later wins are still measured against it, but it is
            // not offered again. Where another plan of the class serves, the row keeps that.
            if (!site->served) change_state(*site, message.schedule, PlanState::declined);
            break;
        case VerdictKind::rolled_back: {
            site->lendable.clear();
            auto schedule = jit::Schedule::parse(message.schedule);
            if (schedule) site->refused.insert(jit::hash_of(*schedule));
            change_state(*site, message.schedule, PlanState::declined);
            break;
        }
        case VerdictKind::wrong:
            site->lendable.clear();
            ++rejected_wrong_;
            ++site->rejected;
            outbox_.log(base::Level::warning,
                        "quarantined after a wrong result in the program: " + message.schedule);
            // A planted candidate shares its schedule with the plan that it copied: only the code
            // is to blame.
            if (site->planted != message.schedule)
                quarantine(*site, message.schedule, "wrong result in the program");
            if (about_best || site->planted == message.schedule) {
                site->has_best = false;
                site->timed = false;
                site->best = {};
                site->planted.clear();
                if (site->stage != Site::Stage::closed) {
                    site->stage = site->task >= 0 ? Site::Stage::open : Site::Stage::fresh;
                    fresh_.push_back(site->id);
                }
            }
            break;
        case VerdictKind::original_kept:
            change_state(*site, message.schedule, PlanState::original_kept);
            site->served = false;
            site->stage = Site::Stage::closed;
            site->note = "the family stays with the original";
            break;
        case VerdictKind::no_room:
            site->stage = Site::Stage::closed;
            site->note = "no room for code or packed operands";
            break;
    }
}

void Workshop::count_refusal(Site& site, const TrialResult& result, const std::string& what) {
    if (result.verdict == Verdict::failed) {
        site.note = result.reason;
        outbox_.log(base::Level::info, "not tried: " + what + ": " + result.reason);
        return;
    }
    ++site.rejected;
    const bool crashed = result.verdict == Verdict::crashed || result.verdict == Verdict::timed_out;
    crashed ? ++rejected_crashed_ : ++rejected_wrong_;
    site.note = "refused " + what + ": " + result.reason;
    outbox_.log(base::Level::info, site.note);
}

void Workshop::plant(const PlantMessage& message) {
    Site* site = find_site(message.site);
    if (site == nullptr || !settings_.options.test_hooks) {
        outbox_.log(base::Level::warning,
                    site == nullptr ? "planted for an unknown site" : "WHET_TEST_HOOKS is not 1");
        return;
    }
    const auto refuse = [&](const std::string& reason) {
        ++rejected_planted_;
        ++site->rejected;
        site->note = "refused planted candidate: " + reason;
        outbox_.log(base::Level::warning, site->note);
    };
    if (site->stage == Site::Stage::fresh) zero_trial(*site);
    if (!site->has_best) return refuse("the site has no plan to start from");
    Candidate candidate = site->best;
    if (message.is_blob != 0) {
        if (candidate.kernels.empty()) return refuse("the portable level has no code");
        if (message.skip_static != 0 && !executor_->contained()) {
            return refuse("the code is not proven and this forge cannot contain it");
        }
        const uint64_t before = kernels_.rejected_static();
        auto kernel = kernels_.plant(candidate.kernels[0]->blob.spec, message.content,
                                     message.skip_static != 0);
        rejected_planted_ -= kernels_.rejected_static() - before;  // counted once, as static
        if (!kernel) return refuse(kernel.error().message);
        const uint64_t replaced = candidate.kernels[0]->id;
        for (KernelRef& ref : candidate.kernels) {
            if (ref->id == replaced) ref = *kernel;
        }
    } else {
        const std::string text(message.content.begin(), message.content.end());
        auto schedule = jit::Schedule::parse(text);
        if (!schedule) return refuse(schedule.error().message);
        auto prepared = prepare(*site, *schedule, true);
        if (!prepared) return refuse(prepared.error().message);
        candidate = std::move(prepared->candidate);
    }
    // The expected values must come from our own plan, not from the stranger.
    TrialOptions options;
    options.measure = false;
    options.reference_budget_ns = kPlantReferenceNs;
    const TrialResult own = run_trial(*site, site->best, nullptr, options);
    if (own.verdict != Verdict::right)
        return refuse("the plan it replaces is not right itself: " + own.reason);
    options.measure = true;
    const TrialResult result = run_trial(*site, candidate, &site->best, options);
    if (result.verdict != Verdict::right) {
        count_refusal(*site, result, "planted candidate");
        outbox_.log(base::Level::warning, site->note);
        return;
    }
    // A test hook: what passes verification is offered whatever its time.
    site->planted = message.is_blob != 0 ? candidate.schedule.print() : "";
    site->best = std::move(candidate);
    site->best_ns = result.candidate_ns;
    site->ratio = result.ratio;
    site->low = result.low;
    site->high = result.high;
    send_offer(*site, OfferKind::tuned);
}

StatusMessage Workshop::status() const {
    StatusMessage status;
    status.trials = trials_;
    status.compiles = kernels_.compiles();
    status.trials_without_compile = trials_without_compile_;
    status.rejected_static = kernels_.rejected_static();
    status.rejected_wrong = rejected_wrong_ + rejected_planted_;
    status.rejected_crashed = rejected_crashed_;
    status.rejected_slow = rejected_slow_;
    status.build_ms_p50 = kernels_.build_ms(0.5);
    status.build_ms_p95 = kernels_.build_ms(0.95);
    status.peak_gflops = stored_.machine.peak_gflops;
    status.stream_gbs = stored_.machine.stream_gbs;
    for (const auto& [id, site] : sites_) {
        const bool settled =
            site->ahead || site->stage == Site::Stage::closed || site->stage == Site::Stage::rested ||
            (site->stage == Site::Stage::lent && !outgrown(*site)) ||
            (site->task >= 0 && policy_->settled(site->task));
        settled ? ++status.sites_settled : ++status.sites_open;
    }
    status.working_on = working_on_;
    status.doing = doing_;
    return status;
}

}  // namespace whet::runtime::forge
