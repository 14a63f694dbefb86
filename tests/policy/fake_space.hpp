// SPDX-License-Identifier: Apache-2.0
// A search space with scripted costs, for tests of policies.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/search_space.hpp"

namespace whet::policy {

/// Sketches of `knobs` knobs with `choices` each. The true time of a point is (base + sum of
/// squared distances to an optimum) per sketch; the estimate is the same with the optimum shifted
/// by `model_error` and scaled by `model_scale`.
class FakeSpace : public base::SearchSpace {
public:
    struct SketchCost {
        double base_ns;
        int16_t optimum;
    };
    FakeSpace(std::vector<SketchCost> sketches, int knobs, int choices, int model_error = 0,
              double model_scale = 1)
        : sketches_(std::move(sketches)),
          knobs_(knobs),
          choices_(choices),
          model_error_(model_error),
          model_scale_(model_scale) {}

    double true_ns(int sketch, const base::Point& point) const { return cost(sketch, point, 0); }

    int sketch_count() const override { return static_cast<int>(sketches_.size()); }
    std::string sketch_name(int sketch) const override { return "sketch" + std::to_string(sketch); }
    int knob_count(int) const override { return knobs_; }
    std::string knob_name(int, int knob) const override { return "knob" + std::to_string(knob); }
    int choice_count(int, int) const override { return choices_; }
    bool legal(int, const base::Point& point, std::string* reason) const override {
        for (const int16_t choice : point) {
            if (choice < 0 || choice >= choices_) {
                if (reason != nullptr) *reason = "choice out of range";
                return false;
            }
        }
        return true;
    }
    bool step(int sketch, base::Point& point, base::Move move) const override {
        base::Point next = point;
        next[static_cast<size_t>(move.knob)] =
            static_cast<int16_t>(next[static_cast<size_t>(move.knob)] + move.delta);
        if (!legal(sketch, next, nullptr)) return false;
        point = std::move(next);
        return true;
    }
    double estimate_ns(int sketch, const base::Point& point) const override {
        return model_scale_ * cost(sketch, point, model_error_);
    }
    int feature_count() const override { return 0; }
    void features(int, const base::Point&, std::span<float>) const override {}

private:
    double cost(int sketch, const base::Point& point, int shift) const {
        const SketchCost& s = sketches_[static_cast<size_t>(sketch)];
        double ns = s.base_ns;
        for (const int16_t choice : point) ns += std::pow(choice - s.optimum - shift, 2);
        return ns;
    }
    std::vector<SketchCost> sketches_;
    int knobs_, choices_, model_error_;
    double model_scale_;
};

}  // namespace whet::policy
