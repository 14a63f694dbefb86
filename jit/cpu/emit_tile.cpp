// SPDX-License-Identifier: Apache-2.0
// IR of tile microkernels: row tiles, taps, the unrolled reduction, start value, epilogue and
// store.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <cstddef>

#include "jit/cpu/emit.hpp"

// A field of the arguments, whose layout depends on the element; used inside TileEmitter.
#define WHET_FIELD(name)                                                \
    (spec_.element == Element::f64 ? offsetof(TileArgsOf<double>, name) \
                                   : offsetof(TileArgsOf<float>, name))

namespace whet::jit::cpu {
namespace {

using llvm::Value;
using Values = std::vector<Value*>;

constexpr int kLine = 64;
constexpr int kTransposedShift = 4;  // log2 of kTransposedUnroll
constexpr int kAheadRounds = kAheadColumns / kTransposedUnroll;
static_assert(1 << kTransposedShift == kTransposedUnroll &&
              kTransposedUnroll * sizeof(float) == kLine);

/// The addresses that one reduction loop carries, and the strides it uses.
struct Operands {
    Values scalars;             ///< bases of the broadcast operand's rows
    Values vectors;             ///< bases of the vector operand
    Value* scalar_k = nullptr;  ///< bytes a step, where the form has such a stride
    Value* vector_k = nullptr;
    Value* prefetch = nullptr;  ///< bytes ahead, where it is not a constant
    Value* ahead = nullptr;     ///< next address to prefetch, where the spec has one
    Value* panel = nullptr;     ///< next address of the copy, where the spec packs
    std::vector<RowAddresses> scalar_rows, vector_rows;  ///< zero or one each
};

class TileEmitter {
public:
    TileEmitter(llvm::Module& module, const MicrokernelSpec& spec)
        : e_(module, spec.isa, spec.element),
          ir_(e_.ir),
          spec_(spec),
          width_(spec.vectors * e_.lanes) {}
    void emit();

private:
    std::size_t index(int r, int v) const {
        return static_cast<std::size_t>(r * spec_.vectors + v);
    }
    Value* is_whole() {
        Value* stored = e_.field_i64(WHET_FIELD(lanes));
        if (transposed()) stored = ir_.CreateSub(stored, e_.field_i64(WHET_FIELD(first_lane)));
        return ir_.CreateICmpEQ(stored, e_.constant(width_));
    }
    Value* tile_offset(std::size_t field) {
        return e_.bytes_of(ir_.CreateMul(tile_, e_.field_i64(field)));
    }
    Operands make_operands(Value* scalar, Value* vector);
    Value* emit_scalar(const Operands& operands, int r, int step);
    Value* emit_vector(const Operands& operands, int r, int v, int step);
    bool transposed() const { return spec_.vector == VectorForm::transposed; }
    Value* gather_pieces(const Operands& operands, int row, int step);
    void emit_columns(Operands& operands, int step, int steps);
    Value* next_line(Value* moved, Value* rounds_left);
    void emit_step(const Operands& operands, Values& sums, int step);
    bool ahead() const { return is_ahead(spec_.prefetch); }
    void prefetch(Value* address, int locality);
    void emit_prefetch(const Operands& operands, int step);
    void emit_prefetch_ahead(Operands& operands, int step, int steps);
    void prefetch_dst();
    void advance_operands(Operands& operands, int steps);
    Values emit_reduction_loop(const Operands& start, const Values& sums, Value* count, int steps,
                               Operands* after);
    Values emit_reduction(Operands operands, Values sums);
    Values emit_taps(Value* scalar, Value* vector);
    Values merge(llvm::BasicBlock* a, const Values& from_a, llvm::BasicBlock* b,
                 const Values& from_b);
    void emit_finish(Values sums);
    Values emit_start(const Values& sums);
    Values emit_start_loaded(const Values& sums, Value* from_dst);
    Values emit_start_bias_row(const Values& sums);
    Values scaled_onto_memory(const Values& sums, Value* first, Value* stride, Value* scale,
                              bool masked);
    void store_rows(const Values& sums, bool masked);

    Emitter e_;
    llvm::IRBuilder<>& ir_;
    const MicrokernelSpec& spec_;
    const int width_;  ///< lanes of the whole tile
    Value* tile_ = nullptr;
    Value* ahead_ = nullptr;  ///< where the prefetches ahead are; moved on by each reduction
    Values columns_;          ///< of a transposed operand: the vectors of the steps at hand
    Emitter::Masks masks_;
};

Operands TileEmitter::make_operands(Value* scalar, Value* vector) {
    Operands operands;
    operands.scalars = {scalar};
    operands.vectors = {vector};
    const bool rows =
        spec_.scalar == ScalarForm::rows_strided || spec_.scalar == ScalarForm::general;
    if (rows) {
        operands.scalar_rows.emplace_back(e_, e_.field_bytes(WHET_FIELD(scalar_row)), spec_.rows);
        operands.scalars = operands.scalar_rows[0].make_bases(scalar);
    }
    if (spec_.scalar != ScalarForm::rows_strided)
        operands.scalar_k = e_.field_bytes(WHET_FIELD(scalar_k));
    if (spec_.vector != VectorForm::packed && !transposed())
        operands.vector_k = e_.field_bytes(WHET_FIELD(vector_k));
    if (spec_.vector == VectorForm::row_strided || transposed()) {
        operands.vector_rows.emplace_back(e_, e_.field_bytes(WHET_FIELD(vector_row)),
                                          transposed() ? e_.lanes : spec_.rows);
        operands.vectors = operands.vector_rows[0].make_bases(vector);
    }
    if (spec_.packs) operands.panel = e_.field_pointer(WHET_FIELD(panel));
    if (ahead()) operands.ahead = ahead_;
    if (ahead() && transposed()) {
        Value* rounds = ir_.CreateAShr(e_.field_i64(WHET_FIELD(k)), kTransposedShift);
        Value* far = ir_.CreateICmpSGT(rounds, e_.constant(kAheadRounds));
        operands.ahead = ir_.CreateSelect(far, e_.advance(vector, e_.bytes * kAheadColumns),
                                          e_.field_pointer(WHET_FIELD(ahead)));
    }
    if (spec_.prefetch && !ahead() && spec_.vector != VectorForm::packed) {
        operands.prefetch = ir_.CreateMul(operands.vector_k, e_.constant(spec_.prefetch));
    }
    return operands;
}

constexpr int kNear = 3, kSecondLevel = 2;  // localities of llvm.prefetch

void TileEmitter::prefetch(Value* address, int locality) {
    ir_.CreateIntrinsic(
        llvm::Intrinsic::prefetch, {e_.pointer},
        {address, ir_.getInt32(0), ir_.getInt32(static_cast<uint32_t>(locality)), ir_.getInt32(1)});
}

/// One prefetch for each cache line of the vectors that are needed `prefetch` steps later.
void TileEmitter::emit_prefetch(const Operands& operands, int step) {
    if (!spec_.prefetch || ahead() || spec_.vector == VectorForm::row_strided) return;
    const int64_t row_bytes = e_.bytes * width_;
    Value* base = spec_.vector == VectorForm::packed
                      ? e_.advance(operands.vectors[0], row_bytes * (step + spec_.prefetch))
                      : e_.advance(operands.vectors[0], operands.prefetch);
    for (int64_t at = 0; at < row_bytes; at += kLine) prefetch(e_.advance(base, at), kNear);
}

/// One unrolled step's prefetches of what the next tiles need, if any.
void TileEmitter::emit_prefetch_ahead(Operands& operands, int step, int steps) {
    if (!ahead() || transposed() || steps == 1) return;
    const int64_t bytes = spec_.prefetch == kAheadRow ? e_.bytes * width_ : kLine;
    for (int64_t at = 0; at < bytes; at += kLine)
        prefetch(e_.advance(operands.ahead, at), kSecondLevel);
    const bool last = step % kAheadStreams == kAheadStreams - 1;
    operands.ahead = e_.advance(
        operands.ahead, e_.field_i64(last ? WHET_FIELD(ahead_return) : WHET_FIELD(ahead_stream)));
}

/// Fetches the tile's part of dst: it is read or written when the sums are there.
void TileEmitter::prefetch_dst() {
    Value* row = e_.advance(e_.field_pointer(WHET_FIELD(dst)), tile_offset(WHET_FIELD(dst_tile)));
    Value* stride = e_.field_bytes(WHET_FIELD(dst_row));
    for (int r = 0; r < spec_.rows; ++r) {
        for (int64_t at = 0; at < e_.bytes * width_; at += kLine)
            prefetch(e_.advance(row, at), kNear);
        row = e_.advance(row, stride);
    }
}

/// The splat of row r's value in this step; a uniform operand has one for all rows.
Value* TileEmitter::emit_scalar(const Operands& operands, int r, int step) {
    Value* address = operands.scalars[0];
    if (!operands.scalar_rows.empty()) {
        address = operands.scalar_rows[0].at(operands.scalars, r);
    } else if (spec_.scalar == ScalarForm::packed) {
        address = e_.advance(address, e_.bytes * r);
    }
    if (spec_.scalar == ScalarForm::rows_strided) address = e_.advance(address, e_.bytes * step);
    return e_.splat(e_.load_scalar(address));
}

/// The kTransposedSteps values of rows `row`, `row` + 4, `row` + 8, ... from `step` on, side by
/// side.
Value* TileEmitter::gather_pieces(const Operands& operands, int row, int step) {
    auto* piece_type = llvm::FixedVectorType::get(e_.value, kTransposedSteps);
    Value* joined = nullptr;
    for (int at = 0; at < e_.lanes; at += kTransposedSteps) {
        Value* address =
            e_.advance(operands.vector_rows[0].at(operands.vectors, row + at), e_.bytes * step);
        Value* piece = ir_.CreateAlignedLoad(piece_type, address, e_.align());
        std::vector<int> widen(static_cast<std::size_t>(e_.lanes), llvm::PoisonMaskElem);
        for (int i = 0; i < kTransposedSteps; ++i) widen[static_cast<std::size_t>(i)] = i;
        Value* wide = ir_.CreateShuffleVector(piece, widen);
        std::vector<int> mask(static_cast<std::size_t>(e_.lanes));
        for (int i = 0; i < e_.lanes; ++i)
            mask[static_cast<std::size_t>(i)] = i < at                      ? i
                                                : i < at + kTransposedSteps ? e_.lanes + i - at
                                                                            : llvm::PoisonMaskElem;
        joined = at == 0 ? wide : ir_.CreateShuffleVector(joined, wide, mask);
    }
    return joined;
}

/// Loads and transposes the columns of the next kTransposedSteps steps: 4x4 blocks, each within a
/// quarter of the vectors. Where `steps` is a whole line of each row, prefetches its share of the
/// lines ahead.
void TileEmitter::emit_columns(Operands& operands, int step, int steps) {
    if (ahead() && steps == kTransposedUnroll) {
        const int lines = e_.lanes / kTransposedSteps;
        for (int row = 0; row < lines; ++row)
            prefetch(operands.vector_rows[0].at({operands.ahead}, row), kNear);
        operands.ahead =
            e_.advance(operands.ahead,
                       ir_.CreateMul(e_.field_bytes(WHET_FIELD(vector_row)), e_.constant(lines)));
    }
    Values pieces;
    for (int row = 0; row < kTransposedSteps; ++row)
        pieces.push_back(gather_pieces(operands, row, step));
    /// Interleaves halves (of `unit` values) of the quarters of two vectors.
    const auto interleave = [&](Value* a, Value* b, int unit, bool high) {
        std::vector<int> mask;
        for (int quarter = 0; quarter < e_.lanes; quarter += 4)
            for (int i = 0; i < 2; i += unit)
                for (int side = 0; side < 2; ++side)
                    for (int j = 0; j < unit; ++j)
                        mask.push_back(side * e_.lanes + quarter + (high ? 2 : 0) + i + j);
        return ir_.CreateShuffleVector(a, b, mask);
    };
    columns_.clear();
    for (const bool high : {false, true}) {
        Value* first = interleave(pieces[0], pieces[1], 1, high);
        Value* second = interleave(pieces[2], pieces[3], 1, high);
        columns_.push_back(interleave(first, second, 2, false));
        columns_.push_back(interleave(first, second, 2, true));
    }
    if (!spec_.packs) return;
    Value* stride = e_.field_bytes(WHET_FIELD(panel_k));
    for (Value* column : columns_) {
        e_.store(column, operands.panel);
        operands.panel = e_.advance(operands.panel, stride);
    }
}

/// Where the prefetches of a transposed operand go on after a round: the next line of the same
/// rows, or, where these end kAheadColumns from here, the rows at `ahead`.
Value* TileEmitter::next_line(Value* moved, Value* rounds_left) {
    Value* rows = ir_.CreateMul(e_.field_bytes(WHET_FIELD(vector_row)), e_.constant(e_.lanes));
    Value* line = e_.advance(moved, ir_.CreateSub(e_.constant(kLine), rows));
    Value* at_end = ir_.CreateICmpEQ(rounds_left, e_.constant(kAheadRounds));
    return ir_.CreateSelect(at_end, e_.field_pointer(WHET_FIELD(ahead)), line);
}

Value* TileEmitter::emit_vector(const Operands& operands, int r, int v, int step) {
    if (transposed()) return columns_[static_cast<std::size_t>(step % kTransposedSteps)];
    Value* row = operands.vectors[0];
    if (!operands.vector_rows.empty()) row = operands.vector_rows[0].at(operands.vectors, r);
    const int64_t moved = spec_.vector == VectorForm::packed ? e_.bytes * width_ * step : 0;
    Value* address = e_.advance(row, moved + e_.bytes * e_.lanes * v);
    return spec_.masked_loads ? e_.masked_load(masks_, v, address) : e_.load(address);
}

/// One reduction step. The shorter side of the tile is loaded at once, the other one by one between
/// its FMAs: so rows * vectors + min(rows, vectors) + 1 registers live, as MicrokernelSpec::check
/// counts.
void TileEmitter::emit_step(const Operands& operands, Values& sums, int step) {
    emit_prefetch(operands, step);
    const bool own_vectors = spec_.vector == VectorForm::row_strided;
    const bool uniform = spec_.scalar == ScalarForm::uniform;
    auto add = [&](int r, int v, Value* scalar, Value* vector) {
        Value*& sum = sums[index(r, v)];
        sum = e_.fma(scalar, vector, sum);
        if (spec_.vectors == 1 && spec_.isa == Isa::avx2) e_.keep_alive(scalar, sum);
    };
    if (spec_.rows < spec_.vectors && !own_vectors && !uniform) {
        Values scalars;
        for (int r = 0; r < spec_.rows; ++r) scalars.push_back(emit_scalar(operands, r, step));
        for (int v = 0; v < spec_.vectors; ++v) {
            if (v > 0) e_.fence_schedule();
            Value* vector = emit_vector(operands, 0, v, step);
            for (int r = 0; r < spec_.rows; ++r)
                add(r, v, scalars[static_cast<std::size_t>(r)], vector);
        }
        return;
    }
    Values vectors;
    for (int v = 0; v < spec_.vectors && !own_vectors; ++v)
        vectors.push_back(emit_vector(operands, 0, v, step));
    Value* scalar = nullptr;
    for (int r = 0; r < spec_.rows; ++r) {
        if (scalar == nullptr || !uniform) scalar = emit_scalar(operands, r, step);
        for (int v = 0; v < spec_.vectors; ++v) {
            if (own_vectors && (r > 0 || v > 0)) e_.fence_schedule();
            add(r, v, scalar,
                own_vectors ? emit_vector(operands, r, v, step)
                            : vectors[static_cast<std::size_t>(v)]);
        }
    }
}

/// Moves the bases on. Forms with a run-time stride a step move after every step (steps == 1),
/// those whose steps are constant displacements move once for all of them.
void TileEmitter::advance_operands(Operands& operands, int steps) {
    const bool constant_scalar = spec_.scalar == ScalarForm::rows_strided;
    const bool constant_vector = spec_.vector == VectorForm::packed || transposed();
    const int64_t vector_bytes = e_.bytes * (transposed() ? 1 : width_);
    for (Value*& base : operands.scalars) {
        if (constant_scalar && steps > 0) base = e_.advance(base, e_.bytes * steps);
        if (!constant_scalar && steps == 0) base = e_.advance(base, operands.scalar_k);
    }
    for (Value*& base : operands.vectors) {
        if (constant_vector && steps > 0) base = e_.advance(base, vector_bytes * steps);
        if (!constant_vector && steps == 0) base = e_.advance(base, operands.vector_k);
    }
}

/// A loop of `count` > 0 iterations of `steps` steps; returns the sums and, in `after`, the moved
/// bases.
Values TileEmitter::emit_reduction_loop(const Operands& start, const Values& sums, Value* count,
                                        int steps, Operands* after) {
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* body = e_.block(steps == 1 ? "reduce_one" : "reduce");
    ir_.CreateBr(body);
    ir_.SetInsertPoint(body);
    std::vector<llvm::PHINode*> nodes;
    auto carried = [&](Value* initial) {
        llvm::PHINode* node = ir_.CreatePHI(initial->getType(), 2);
        node->addIncoming(initial, before);
        nodes.push_back(node);
        return static_cast<Value*>(node);
    };
    Value* left = carried(count);
    Operands operands = start;
    for (Value*& base : operands.scalars) base = carried(base);
    for (Value*& base : operands.vectors) base = carried(base);
    if (ahead()) operands.ahead = carried(operands.ahead);
    if (spec_.packs) operands.panel = carried(operands.panel);
    Values now;
    for (Value* sum : sums) now.push_back(carried(sum));

    for (int step = 0; step < steps; ++step) {
        if (step > 0) e_.fence_schedule();
        if (transposed() && step % kTransposedSteps == 0) emit_columns(operands, step, steps);
        emit_step(operands, now, step);
        emit_prefetch_ahead(operands, step, steps);
        advance_operands(operands, 0);
    }
    if (transposed()) e_.fence_schedule();  // else old and new addresses need registers at once
    advance_operands(operands, steps);
    Value* next = ir_.CreateSub(left, e_.constant(1));
    if (ahead() && transposed() && steps == kTransposedUnroll)
        operands.ahead = next_line(operands.ahead, next);
    Values outgoing = {next};
    outgoing.insert(outgoing.end(), operands.scalars.begin(), operands.scalars.end());
    outgoing.insert(outgoing.end(), operands.vectors.begin(), operands.vectors.end());
    if (ahead()) outgoing.push_back(operands.ahead);
    if (spec_.packs) outgoing.push_back(operands.panel);
    outgoing.insert(outgoing.end(), now.begin(), now.end());
    for (std::size_t i = 0; i < nodes.size(); ++i)
        nodes[i]->addIncoming(outgoing[i], ir_.GetInsertBlock());
    llvm::BasicBlock* done = e_.block("reduced");
    ir_.CreateCondBr(ir_.CreateICmpNE(next, e_.constant(0)), body, done);
    ir_.SetInsertPoint(done);
    if (after != nullptr) *after = operands;
    return now;
}

Values TileEmitter::merge(llvm::BasicBlock* a, const Values& from_a, llvm::BasicBlock* b,
                          const Values& from_b) {
    Values merged;
    for (std::size_t i = 0; i < from_a.size(); ++i) {
        llvm::PHINode* node = ir_.CreatePHI(from_a[i]->getType(), 2);
        node->addIncoming(from_a[i], a);
        node->addIncoming(from_b[i], b);
        merged.push_back(node);
    }
    return merged;
}

/// The reduction over k: groups of `unroll` steps, then the rest by the fewest steps that there
/// are.
Values TileEmitter::emit_reduction(Operands operands, Values sums) {
    const int rounds = spec_.unroll == 1 ? 1 : 2;
    const int fewest = transposed() ? kTransposedSteps : 1;
    for (int round = 0; round < rounds; ++round) {
        Value* k = e_.field_i64(WHET_FIELD(k));
        const bool unrolled = spec_.unroll > 1 && round == 0;
        Value* count = k;
        if (unrolled) count = ir_.CreateAShr(k, static_cast<uint64_t>(__builtin_ctz(spec_.unroll)));
        if (round == 1) count = ir_.CreateAnd(k, e_.constant(spec_.unroll - 1));
        if (round == 1 && transposed())
            count = ir_.CreateAShr(count, static_cast<uint64_t>(__builtin_ctz(kTransposedSteps)));
        llvm::BasicBlock* before = ir_.GetInsertBlock();
        llvm::BasicBlock* enter = e_.block("enter");
        llvm::BasicBlock* join = e_.block("join");
        ir_.CreateCondBr(ir_.CreateICmpSGT(count, e_.constant(0)), enter, join);
        ir_.SetInsertPoint(enter);
        Operands after;
        Values reduced =
            emit_reduction_loop(operands, sums, count, unrolled ? spec_.unroll : fewest, &after);
        llvm::BasicBlock* end = ir_.GetInsertBlock();
        ir_.CreateBr(join);
        join->moveAfter(end);
        ir_.SetInsertPoint(join);
        operands.scalars = merge(before, operands.scalars, end, after.scalars);
        operands.vectors = merge(before, operands.vectors, end, after.vectors);
        if (ahead()) operands.ahead = merge(before, {operands.ahead}, end, {after.ahead})[0];
        if (spec_.packs) operands.panel = merge(before, {operands.panel}, end, {after.panel})[0];
        sums = merge(before, sums, end, reduced);
    }
    ahead_ = operands.ahead;
    return sums;
}

Values TileEmitter::emit_taps(Value* scalar, Value* vector) {
    Values zeros(static_cast<std::size_t>(spec_.rows * spec_.vectors),
                 llvm::Constant::getNullValue(e_.vector_type));
    if (!spec_.taps) return emit_reduction(make_operands(scalar, vector), zeros);

    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* body = e_.block("tap");
    llvm::BasicBlock* join = e_.block("taps_done");
    ir_.CreateCondBr(ir_.CreateICmpSGT(e_.field_i64(WHET_FIELD(taps)), e_.constant(0)), body, join);
    ir_.SetInsertPoint(body);
    llvm::PHINode* tap = ir_.CreatePHI(e_.i64, 2);
    tap->addIncoming(e_.constant(0), before);
    std::vector<llvm::PHINode*> nodes;
    for (Value* zero : zeros) {
        nodes.push_back(ir_.CreatePHI(e_.vector_type, 2));
        nodes.back()->addIncoming(zero, before);
    }
    Value* pair = e_.advance(e_.field_pointer(WHET_FIELD(tap_offsets)), ir_.CreateShl(tap, 4));
    Value* scalar_offset = ir_.CreateAlignedLoad(e_.i64, pair, llvm::Align(8));
    Value* vector_offset = ir_.CreateAlignedLoad(e_.i64, e_.advance(pair, 8), llvm::Align(8));
    Value* scalar_tap = e_.advance(scalar, e_.bytes_of(scalar_offset));
    Value* vector_tap = e_.advance(vector, e_.bytes_of(vector_offset));
    Values sums(nodes.begin(), nodes.end());
    const Operands operands = make_operands(scalar_tap, vector_tap);
    if (spec_.taps == 2) {
        emit_step(operands, sums, 0);
    } else {
        sums = emit_reduction(operands, sums);
    }
    llvm::BasicBlock* end = ir_.GetInsertBlock();
    Value* next = ir_.CreateAdd(tap, e_.constant(1));
    tap->addIncoming(next, end);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i]->addIncoming(sums[i], end);
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, e_.field_i64(WHET_FIELD(taps))), body, join);
    join->moveAfter(end);
    ir_.SetInsertPoint(join);
    return merge(before, zeros, end, sums);
}

/// fma(alpha, sum, scale * memory): the start value from dst (stride of rows) or from the bias
/// (stride 0).
Values TileEmitter::scaled_onto_memory(const Values& sums, Value* first, Value* stride,
                                       Value* scale, bool masked) {
    Value* alpha = e_.splat(e_.field_value(WHET_FIELD(alpha)));
    Values result;
    Value* row = first;
    for (int r = 0; r < spec_.rows; ++r) {
        for (int v = 0; v < spec_.vectors; ++v) {
            Value* address = e_.advance(row, e_.bytes * e_.lanes * v);
            Value* memory = masked ? e_.masked_load(masks_, v, address) : e_.load(address);
            result.push_back(e_.fma(alpha, sums[index(r, v)], ir_.CreateFMul(memory, scale)));
        }
        row = e_.advance(row, stride);
    }
    return result;
}

/// Starts dst, beta * dst and bias[lane] are one load: an address, a row stride and a scale (1 is
/// exact).
Values TileEmitter::emit_start_loaded(const Values& sums, Value* start) {
    Value* from_bias = ir_.CreateICmpEQ(start, e_.constant(kStartBiasLane));
    Value* dst = e_.advance(e_.field_pointer(WHET_FIELD(dst)), tile_offset(WHET_FIELD(dst_tile)));
    Value* bias = e_.field_pointer(WHET_FIELD(bias));
    Value* first = ir_.CreateSelect(from_bias, bias, dst);
    Value* stride =
        ir_.CreateSelect(from_bias, e_.constant(0), e_.field_bytes(WHET_FIELD(dst_row)));
    Value* beta = e_.advance(e_.function->getArg(0), static_cast<int64_t>(WHET_FIELD(beta)));
    Value* is_scaled = ir_.CreateICmpEQ(start, e_.constant(kStartScaled));
    Value* scale = e_.splat(e_.load_scalar(ir_.CreateSelect(is_scaled, beta, e_.one())));

    llvm::BasicBlock* whole = e_.block("start_whole");
    llvm::BasicBlock* partial = e_.block("start_masked");
    llvm::BasicBlock* join = e_.block("started");
    ir_.CreateCondBr(is_whole(), whole, partial);
    ir_.SetInsertPoint(whole);
    const Values from_whole = scaled_onto_memory(sums, first, stride, scale, false);
    ir_.CreateBr(join);
    ir_.SetInsertPoint(partial);
    const Values from_partial = scaled_onto_memory(sums, first, stride, scale, true);
    ir_.CreateBr(join);
    ir_.SetInsertPoint(join);
    return merge(whole, from_whole, partial, from_partial);
}

Values TileEmitter::emit_start_bias_row(const Values& sums) {
    Value* bias =
        e_.advance(e_.field_pointer(WHET_FIELD(bias)), tile_offset(WHET_FIELD(bias_tile)));
    Value* alpha = e_.splat(e_.field_value(WHET_FIELD(alpha)));
    Values result;
    for (int r = 0; r < spec_.rows; ++r) {
        Value* start = e_.splat(e_.load_scalar(e_.advance(bias, e_.bytes * r)));
        for (int v = 0; v < spec_.vectors; ++v)
            result.push_back(e_.fma(alpha, sums[index(r, v)], start));
    }
    return result;
}

/// fma(alpha, sum, start): branches on the start mode, an argument.
Values TileEmitter::emit_start(const Values& sums) {
    llvm::BasicBlock* zero = e_.block("start_zero");
    llvm::BasicBlock* other = e_.block("start_other");
    llvm::BasicBlock* bias_row = e_.block("start_bias_row");
    llvm::BasicBlock* loaded = e_.block("start_loaded");
    Value* start = e_.field_i64(WHET_FIELD(start));
    ir_.CreateCondBr(ir_.CreateICmpEQ(start, e_.constant(kStartZero)), zero, other);
    ir_.SetInsertPoint(other);
    ir_.CreateCondBr(ir_.CreateICmpEQ(start, e_.constant(kStartBiasRow)), bias_row, loaded);

    ir_.SetInsertPoint(loaded);
    const Values from_loaded = emit_start_loaded(sums, start);
    llvm::BasicBlock* loaded_end = ir_.GetInsertBlock();
    ir_.SetInsertPoint(bias_row);
    const Values from_bias_row = emit_start_bias_row(sums);
    ir_.SetInsertPoint(zero);
    Values from_zero;
    Value* alpha = e_.splat(e_.field_value(WHET_FIELD(alpha)));
    for (Value* sum : sums)
        from_zero.push_back(e_.fma(alpha, sum, llvm::Constant::getNullValue(e_.vector_type)));

    llvm::BasicBlock* join = e_.block("start_done");
    for (llvm::BasicBlock* end : {loaded_end, bias_row, zero}) {
        ir_.SetInsertPoint(end);
        ir_.CreateBr(join);
    }
    ir_.SetInsertPoint(join);
    Values result;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        llvm::PHINode* node = ir_.CreatePHI(e_.vector_type, 3);
        node->addIncoming(from_loaded[i], loaded_end);
        node->addIncoming(from_bias_row[i], bias_row);
        node->addIncoming(from_zero[i], zero);
        result.push_back(node);
    }
    return result;
}

void TileEmitter::store_rows(const Values& sums, bool masked) {
    Value* row = e_.advance(e_.field_pointer(WHET_FIELD(dst)), tile_offset(WHET_FIELD(dst_tile)));
    Value* stride = e_.field_bytes(WHET_FIELD(dst_row));
    for (int r = 0; r < spec_.rows; ++r) {
        for (int v = 0; v < spec_.vectors; ++v) {
            Value* address = e_.advance(row, e_.bytes * e_.lanes * v);
            if (masked) {
                e_.masked_store(masks_, v, sums[index(r, v)], address);
            } else {
                e_.store(sums[index(r, v)], address);
            }
        }
        row = e_.advance(row, stride);
    }
}

void TileEmitter::emit_finish(Values sums) {
    sums = emit_start(sums);
    if (spec_.epilogue == Epilogue::relu) {
        llvm::BasicBlock* before = ir_.GetInsertBlock();
        llvm::BasicBlock* epilogue = e_.block("epilogue");
        llvm::BasicBlock* join = e_.block("finished");
        ir_.CreateCondBr(ir_.CreateICmpNE(e_.field_i64(WHET_FIELD(finish)), e_.constant(0)),
                         epilogue, join);
        ir_.SetInsertPoint(epilogue);
        Values clipped;
        for (Value* sum : sums)
            clipped.push_back(e_.maximum(llvm::Constant::getNullValue(e_.vector_type), sum));
        ir_.CreateBr(join);
        ir_.SetInsertPoint(join);
        sums = merge(before, sums, epilogue, clipped);
    }
    llvm::BasicBlock* whole = e_.block("store_whole");
    llvm::BasicBlock* partial = e_.block("store_masked");
    llvm::BasicBlock* join = e_.block("stored");
    ir_.CreateCondBr(is_whole(), whole, partial);
    ir_.SetInsertPoint(whole);
    store_rows(sums, false);
    ir_.CreateBr(join);
    ir_.SetInsertPoint(partial);
    store_rows(sums, true);
    ir_.CreateBr(join);
    ir_.SetInsertPoint(join);
}

void TileEmitter::emit() {
    llvm::BasicBlock* begin = e_.block("begin");
    llvm::BasicBlock* body = e_.block("tile");
    llvm::BasicBlock* done = e_.block("done");
    Value* lanes = e_.field_i64(WHET_FIELD(lanes));
    Value* some = ir_.CreateAnd(ir_.CreateICmpSGT(e_.field_i64(WHET_FIELD(tiles)), e_.constant(0)),
                                ir_.CreateICmpSGT(lanes, e_.constant(0)));
    ir_.CreateCondBr(some, begin, done);
    ir_.SetInsertPoint(begin);
    masks_ =
        e_.make_masks(lanes, width_, transposed() ? e_.field_i64(WHET_FIELD(first_lane)) : nullptr);
    Value* first_ahead = nullptr;
    const bool walks = ahead() && !transposed();  // what is ahead, tile by tile
    if (walks) {
        first_ahead = e_.field_pointer(WHET_FIELD(ahead));
    }
    ir_.CreateBr(body);

    ir_.SetInsertPoint(body);
    llvm::PHINode* tile = ir_.CreatePHI(e_.i64, 2);
    tile->addIncoming(e_.constant(0), begin);
    tile_ = tile;
    llvm::PHINode* ahead_node = nullptr;
    if (walks) {
        ahead_node = ir_.CreatePHI(e_.pointer, 2);
        ahead_node->addIncoming(first_ahead, begin);
        ahead_ = ahead_node;
    }
    if (ahead()) prefetch_dst();
    Value* scalar =
        e_.advance(e_.field_pointer(WHET_FIELD(scalar)), tile_offset(WHET_FIELD(scalar_tile)));
    Value* vector =
        e_.advance(e_.field_pointer(WHET_FIELD(vector)), tile_offset(WHET_FIELD(vector_tile)));
    emit_finish(emit_taps(scalar, vector));
    Value* next = ir_.CreateAdd(tile, e_.constant(1));
    tile->addIncoming(next, ir_.GetInsertBlock());
    if (ahead_node != nullptr) ahead_node->addIncoming(ahead_, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, e_.field_i64(WHET_FIELD(tiles))), body, done);
    done->moveAfter(ir_.GetInsertBlock());
    ir_.SetInsertPoint(done);
    ir_.CreateRetVoid();
}

}  // namespace

void emit_tile(llvm::Module& module, const MicrokernelSpec& spec) {
    TileEmitter(module, spec).emit();
}

}  // namespace whet::jit::cpu
