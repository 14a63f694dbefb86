// SPDX-License-Identifier: Apache-2.0
// Blocks, dominators and natural loops of a decoded text.
#include "jit/cpu/control_flow.hpp"

#include <algorithm>

namespace whet::jit::cpu {

ControlFlow::ControlFlow(const Text& text, const std::map<uint64_t, std::size_t>& index_at,
                         std::size_t entry) {
    std::vector<bool> begins(text.size() + 1, false);
    begins[0] = begins[text.size()] = begins[entry] = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i].name.starts_with("RET")) begins[i + 1] = true;
        if (!text[i].is_branch) continue;
        begins[i + 1] = true;
        begins[index_at.at(*text[i].target)] = true;
    }
    std::vector<std::size_t> block_at(text.size() + 1, 0);
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (begins[i]) starts_.push_back(i);
        block_at[i] = starts_.size() - 1;
    }
    entry_ = block_at[entry];
    const std::size_t count = starts_.size() - 1;
    successors_.resize(count);
    predecessors_.resize(count);
    std::vector<bool> reached(
        count, false);  // padding between blocks is not, and must not look like a way into a loop
    for (std::vector<std::size_t> open = {entry_}; !open.empty();) {
        const std::size_t b = open.back();
        open.pop_back();
        if (reached[b]) continue;
        reached[b] = true;
        const Instruction& last = text[starts_[b + 1] - 1];
        if (last.target) successors_[b].push_back(block_at[index_at.at(*last.target)]);
        const bool falls = !last.name.starts_with("JMP") && !last.name.starts_with("RET");
        if (falls && b + 1 < count) successors_[b].push_back(b + 1);
        for (const std::size_t next : successors_[b]) predecessors_[next].push_back(b);
        open.insert(open.end(), successors_[b].begin(), successors_[b].end());
    }
    find_dominators();
}

void ControlFlow::find_dominators() {
    const std::size_t count = successors_.size();
    dominators_.assign(count, Blocks(count, true));
    dominators_[entry_].assign(count, false);
    dominators_[entry_][entry_] = true;
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t b = 0; b < count; ++b) {
            if (b == entry_) continue;
            Blocks common(count, true);
            for (const std::size_t from : predecessors_[b]) {
                for (std::size_t d = 0; d < count; ++d)
                    common[d] = common[d] && dominators_[from][d];
            }
            common[b] = true;
            changed = changed || common != dominators_[b];
            dominators_[b] = std::move(common);
        }
    }
}

namespace {

/// How far an instruction lowers the stack pointer. Only these forms are allowed to change it.
int64_t stack_step(const Instruction& i) {
    constexpr int64_t kRegisterBytes = 8;
    if (i.name == "PUSH64r") return kRegisterBytes;
    if (i.name == "POP64r") return -kRegisterBytes;
    if (!i.adjusts_stack) return 0;
    const int64_t bytes = i.inst.getOperand(i.inst.getNumOperands() - 1).getImm();
    return i.name.starts_with("SUB") ? bytes : -bytes;
}

}  // namespace

std::vector<int64_t> ControlFlow::stack_depths(const Text& text) const {
    std::vector<int64_t> depths(text.size(), kUnreached);
    std::vector<std::pair<std::size_t, int64_t>> open = {{entry_, 0}};
    while (!open.empty()) {
        auto [block, depth] = open.back();
        open.pop_back();
        const std::size_t first = starts_[block];
        if (depths[first] != kUnreached) {
            if (depths[first] != depth) depths[first] = kAmbiguous;
            continue;
        }
        for (std::size_t i = first; i < starts_[block + 1]; ++i) {
            depths[i] = depth;
            depth += stack_step(text[i]);
        }
        for (const std::size_t next : successors_[block]) open.emplace_back(next, depth);
    }
    return depths;
}

ControlFlow::Blocks ControlFlow::body_of(std::size_t from, std::size_t header) const {
    Blocks body(successors_.size(), false);
    body[header] = true;
    std::vector<std::size_t> open = {from};
    while (!open.empty()) {
        const std::size_t b = open.back();
        open.pop_back();
        if (body[b]) continue;
        body[b] = true;
        open.insert(open.end(), predecessors_[b].begin(), predecessors_[b].end());
    }
    return body;
}

std::vector<Loop> ControlFlow::innermost_loops() const {
    std::map<std::size_t, Blocks> bodies;  // by header
    for (std::size_t b = 0; b < successors_.size(); ++b) {
        for (const std::size_t header : successors_[b]) {
            if (!dominators_[b][header]) continue;
            const Blocks body = body_of(b, header);
            Blocks& whole = bodies.try_emplace(header, body).first->second;
            for (std::size_t i = 0; i < body.size(); ++i) whole[i] = whole[i] || body[i];
        }
    }
    std::vector<Loop> innermost;
    for (const auto& [header, body] : bodies) {
        const bool holds_other = std::any_of(
            bodies.begin(), bodies.end(),
            [&, h = header](const auto& other) { return other.first != h && body[other.first]; });
        if (holds_other) continue;
        Loop loop;
        for (std::size_t b = 0; b < body.size(); ++b) {
            for (std::size_t i = starts_[b]; body[b] && i < starts_[b + 1]; ++i) loop.push_back(i);
        }
        innermost.push_back(std::move(loop));
    }
    return innermost;
}

}  // namespace whet::jit::cpu
