// SPDX-License-Identifier: Apache-2.0
// IR of softmax microkernels: row maximum, exponentials and their sum, division.
#include <llvm/IR/Constants.h>

#include <cstddef>
#include <functional>
#include <limits>

#include "jit/cpu/emit.hpp"
#include "jit/portable.hpp"

namespace whet::jit::cpu {
namespace {

using llvm::Value;
using Values = std::vector<Value*>;

constexpr int kRowLanes = 64;      // numerics.py, ROW_LANES
constexpr int kRowSegment = 8192;  // numerics.py, ROW_SEGMENT
constexpr int kBlockBytes = 4 * kRowLanes;

class SoftmaxEmitter {
public:
    SoftmaxEmitter(llvm::Module& module, const MicrokernelSpec& spec)
        : e_(module, spec.isa, Element::f32), ir_(e_.ir), vectors_(kRowLanes / e_.lanes) {}
    void emit();

private:
    /// Emits one block of 64 elements at byte `offset` of the row: takes and returns the carried
    /// values.
    using Block = std::function<Values(Value* offset, bool masked, const Values& carried)>;

    Values emit_blocks(Value* first, Value* end, const Values& carried, const Block& block);
    Values emit_tail(Value* offset, Value* condition, const Values& carried, const Block& block);
    Value* address(Value* row, Value* offset, int v) {
        return e_.advance(e_.advance(row, offset), int64_t{4} * e_.lanes * v);
    }
    Value* tail() {
        return ir_.CreateAnd(e_.field_i64(offsetof(SoftmaxArgs, columns)),
                             e_.constant(kRowLanes - 1));
    }
    Value* has_tail() { return ir_.CreateICmpNE(tail(), e_.constant(0)); }
    /// Bytes of the whole blocks of a row. Computed where it is used, as the others: registers are
    /// short.
    Value* whole_bytes() {
        return e_.bytes_of(
            ir_.CreateAnd(e_.field_i64(offsetof(SoftmaxArgs, columns)), e_.constant(-kRowLanes)));
    }
    Value* emit_maximum(Value* src);
    /// A row of dst that holds exponentials, and the splat of their sum.
    struct Exponentials {
        Value* dst = nullptr;
        Value* total = nullptr;
    };
    Value* emit_exponentials(Value* src, Value* dst, Value* maximum, const Exponentials* scaled);
    void emit_scaling(const Exponentials& row);
    void scale_vector(const Exponentials& row, Value* offset, int v, bool masked);
    Value* row_of(Value* row, std::size_t pointer_field, std::size_t stride_field) {
        return e_.advance(e_.field_pointer(pointer_field),
                          ir_.CreateMul(row, e_.field_bytes(stride_field)));
    }
    Value* src_row(Value* row) {
        return row_of(row, offsetof(SoftmaxArgs, src), offsetof(SoftmaxArgs, src_row));
    }
    Value* dst_row(Value* row) {
        return row_of(row, offsetof(SoftmaxArgs, dst), offsetof(SoftmaxArgs, dst_row));
    }
    void emit_rows();
    Value* exponential(Value* x);
    Value* reduce(Values values, const std::function<Value*(Value*, Value*)>& combine);

    Emitter e_;
    llvm::IRBuilder<>& ir_;
    const int vectors_;     ///< vectors of a block
    Emitter::Masks masks_;  ///< of the tail that is being emitted
};

/// for (offset = first; offset < end; offset += 64 floats) carried = block(offset, carried)
Values SoftmaxEmitter::emit_blocks(Value* first, Value* end, const Values& carried,
                                   const Block& block) {
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* body = e_.block("blocks");
    llvm::BasicBlock* done = e_.block("blocks_done");
    ir_.CreateCondBr(ir_.CreateICmpSLT(first, end), body, done);
    ir_.SetInsertPoint(body);
    llvm::PHINode* offset = ir_.CreatePHI(e_.i64, 2);
    offset->addIncoming(first, before);
    std::vector<llvm::PHINode*> nodes;
    for (Value* value : carried) {
        nodes.push_back(ir_.CreatePHI(value->getType(), 2));
        nodes.back()->addIncoming(value, before);
    }
    const Values now = block(offset, false, Values(nodes.begin(), nodes.end()));
    llvm::BasicBlock* end_of_body = ir_.GetInsertBlock();
    Value* next = ir_.CreateAdd(offset, e_.constant(kBlockBytes));
    offset->addIncoming(next, end_of_body);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i]->addIncoming(now[i], end_of_body);
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, end), body, done);
    ir_.SetInsertPoint(done);
    Values after;
    for (std::size_t i = 0; i < carried.size(); ++i) {
        llvm::PHINode* node = ir_.CreatePHI(carried[i]->getType(), 2);
        node->addIncoming(carried[i], before);
        node->addIncoming(now[i], end_of_body);
        after.push_back(node);
    }
    return after;
}

/// if (condition) carried = block(offset, masked, carried)
Values SoftmaxEmitter::emit_tail(Value* offset, Value* condition, const Values& carried,
                                 const Block& block) {
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* body = e_.block("tail");
    llvm::BasicBlock* done = e_.block("tail_done");
    ir_.CreateCondBr(condition, body, done);
    ir_.SetInsertPoint(body);
    masks_ = e_.make_masks(tail(), kRowLanes);
    const Values now = block(offset, true, carried);
    llvm::BasicBlock* end_of_body = ir_.GetInsertBlock();
    ir_.CreateBr(done);
    ir_.SetInsertPoint(done);
    Values after;
    for (std::size_t i = 0; i < carried.size(); ++i) {
        llvm::PHINode* node = ir_.CreatePHI(carried[i]->getType(), 2);
        node->addIncoming(carried[i], before);
        node->addIncoming(now[i], end_of_body);
        after.push_back(node);
    }
    return after;
}

/// Halves until one lane is left, lane[i] = combine(lane[i], lane[i + n / 2]); returns the splat of
/// it.
Value* SoftmaxEmitter::reduce(Values values, const std::function<Value*(Value*, Value*)>& combine) {
    for (std::size_t n = values.size() / 2; n >= 1; n /= 2) {
        for (std::size_t i = 0; i < n; ++i) values[i] = combine(values[i], values[i + n]);
    }
    Value* value = values[0];
    for (int n = e_.lanes / 2; n >= 1; n /= 2) {
        llvm::SmallVector<int, 16> shuffle;
        for (int i = 0; i < e_.lanes; ++i) shuffle.push_back(i < n ? i + n : i);
        value = combine(value, ir_.CreateShuffleVector(value, shuffle));
    }
    const llvm::SmallVector<int, 16> first(static_cast<std::size_t>(e_.lanes), 0);
    return ir_.CreateShuffleVector(value, first);
}

/// softmax_exp of portable.cpp, operation by operation.
Value* SoftmaxEmitter::exponential(Value* x) {
    using C = ExpConstants;
    x = e_.maximum(e_.vector_constant(C::kLowest), x);
    Value* shifted = e_.fma(x, e_.vector_constant(C::kLog2E), e_.vector_constant(C::kMagic));
    Value* n = ir_.CreateFSub(shifted, e_.vector_constant(C::kMagic));
    Value* r = e_.fma(n, e_.vector_constant(-C::kLn2High), x);
    r = e_.fma(n, e_.vector_constant(-C::kLn2Low), r);
    Value* p = e_.vector_constant(C::kPolynomial[4]);
    for (int i = 3; i >= 0; --i) p = e_.fma(p, r, e_.vector_constant(C::kPolynomial[i]));
    p = e_.fma(p, r, e_.vector_constant(1.0f));
    p = e_.fma(p, r, e_.vector_constant(1.0f));
    auto* bits = llvm::FixedVectorType::get(ir_.getInt32Ty(), static_cast<unsigned>(e_.lanes));
    constexpr uint64_t kExponentShift = 23;
    Value* power = ir_.CreateBitCast(
        ir_.CreateShl(ir_.CreateBitCast(shifted, bits), kExponentShift), e_.vector_type);
    return ir_.CreateFMul(ir_.CreateFMul(p, power), e_.vector_constant(C::kDownscale));
}

Value* SoftmaxEmitter::emit_maximum(Value* src) {
    Value* lowest = e_.vector_constant(-std::numeric_limits<float>::infinity());
    Values maxima(static_cast<std::size_t>(vectors_), lowest);
    const Block block = [&](Value* offset, bool masked, const Values& carried) {
        Values now;
        for (int v = 0; v < vectors_; ++v) {
            Value* place = address(src, offset, v);
            Value* x = masked
                           ? e_.masked_select(masks_, v, e_.masked_load(masks_, v, place), lowest)
                           : e_.load(place);
            now.push_back(e_.maximum(carried[static_cast<std::size_t>(v)], x));
        }
        return now;
    };
    maxima = emit_blocks(e_.constant(0), whole_bytes(), maxima, block);
    maxima = emit_tail(whole_bytes(), has_tail(), maxima, block);
    return reduce(maxima, [&](Value* a, Value* b) { return e_.maximum(a, b); });
}

/// Stores e = exp(x - m) and returns the splat of their segmented sum. Divides the row `scaled` on
/// the way: its divisions and these multiplications use different units.
Value* SoftmaxEmitter::emit_exponentials(Value* src, Value* dst, Value* maximum,
                                         const Exponentials* scaled) {
    const Block block = [&](Value* offset, bool masked, const Values& carried) {
        Values now;
        for (int v = 0; v < vectors_; ++v) {
            if (v > 0) e_.fence_schedule();
            Value* place = address(src, offset, v);
            Value* x = masked ? e_.masked_load(masks_, v, place) : e_.load(place);
            Value* power = exponential(ir_.CreateFSub(x, maximum));
            if (masked) {
                e_.masked_store(masks_, v, power, address(dst, offset, v));
                power = e_.masked_select(masks_, v, power,
                                         llvm::Constant::getNullValue(e_.vector_type));
            } else {
                e_.store(power, address(dst, offset, v));
            }
            now.push_back(ir_.CreateFAdd(carried[static_cast<std::size_t>(v)], power));
            if (scaled != nullptr) scale_vector(*scaled, offset, v, masked);
        }
        return now;
    };
    Values zeros(static_cast<std::size_t>(vectors_), llvm::Constant::getNullValue(e_.vector_type));
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* segment = e_.block("segment");
    llvm::BasicBlock* done = e_.block("segments_done");
    ir_.CreateBr(segment);
    ir_.SetInsertPoint(segment);
    constexpr int64_t kSegmentBytes = int64_t{4} * kRowSegment;
    llvm::PHINode* first = ir_.CreatePHI(e_.i64, 2);
    llvm::PHINode* total = ir_.CreatePHI(e_.vector_type, 2);
    first->addIncoming(e_.constant(0), before);
    total->addIncoming(zeros[0], before);
    Value* next = ir_.CreateAdd(first, e_.constant(kSegmentBytes));
    Value* whole = whole_bytes();
    Value* end = ir_.CreateSelect(ir_.CreateICmpSLE(whole, next), whole, next);
    Values sums = emit_blocks(first, end, zeros, block);
    // The tail belongs to this segment unless the whole blocks fill it: then it is a segment of its
    // own.
    whole = whole_bytes();
    Value* has_room = ir_.CreateICmpSLT(whole, next);
    sums = emit_tail(whole, ir_.CreateAnd(has_tail(), has_room), sums, block);
    Value* sum = ir_.CreateFAdd(
        total, reduce(sums, [&](Value* a, Value* b) { return ir_.CreateFAdd(a, b); }));
    Value* bytes = e_.field_bytes(offsetof(SoftmaxArgs, columns));
    first->addIncoming(next, ir_.GetInsertBlock());
    total->addIncoming(sum, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, bytes), segment, done);
    ir_.SetInsertPoint(done);
    return sum;
}

void SoftmaxEmitter::scale_vector(const Exponentials& row, Value* offset, int v, bool masked) {
    Value* place = address(row.dst, offset, v);
    if (masked) {
        e_.masked_store(masks_, v, ir_.CreateFDiv(e_.masked_load(masks_, v, place), row.total),
                        place);
    } else {
        e_.store(ir_.CreateFDiv(e_.load(place), row.total), place);
    }
}

void SoftmaxEmitter::emit_scaling(const Exponentials& row) {
    const Block block = [&](Value* offset, bool masked, const Values& carried) {
        for (int v = 0; v < vectors_; ++v) scale_vector(row, offset, v, masked);
        return carried;
    };
    emit_blocks(e_.constant(0), whole_bytes(), {}, block);
    emit_tail(whole_bytes(), has_tail(), {}, block);
}

/// A pipeline over rows: while row i gets its exponentials, row i - 1 is divided and row i + 1 has
/// its maximum taken before, so that no step waits for the halving trees of its own row.
void SoftmaxEmitter::emit_rows() {
    Value* zero = e_.constant(0);
    Value* rows = e_.field_i64(offsetof(SoftmaxArgs, rows));
    Value* several = ir_.CreateICmpSGT(rows, e_.constant(1));
    Value* total =
        emit_exponentials(src_row(zero), dst_row(zero), emit_maximum(src_row(zero)), nullptr);
    llvm::BasicBlock* first_end = ir_.GetInsertBlock();
    llvm::BasicBlock* second = e_.block("second_row");
    llvm::BasicBlock* last = e_.block("last_row");
    ir_.CreateCondBr(several, second, last);

    ir_.SetInsertPoint(second);
    Value* second_maximum = emit_maximum(src_row(e_.constant(1)));
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* body = e_.block("row");
    ir_.CreateBr(body);
    ir_.SetInsertPoint(body);
    llvm::PHINode* row = ir_.CreatePHI(e_.i64, 2);
    llvm::PHINode* maximum = ir_.CreatePHI(e_.vector_type, 2);
    llvm::PHINode* previous_total = ir_.CreatePHI(e_.vector_type, 2);
    row->addIncoming(e_.constant(1), before);
    maximum->addIncoming(second_maximum, before);
    previous_total->addIncoming(total, before);
    Value* next = ir_.CreateAdd(row, e_.constant(1));
    Value* exists = ir_.CreateICmpSLT(next, e_.field_i64(offsetof(SoftmaxArgs, rows)));
    Value* next_maximum = emit_maximum(src_row(ir_.CreateSelect(exists, next, row)));
    const Exponentials previous = {dst_row(ir_.CreateSub(row, e_.constant(1))), previous_total};
    Value* row_total = emit_exponentials(src_row(row), dst_row(row), maximum, &previous);
    llvm::BasicBlock* end = ir_.GetInsertBlock();
    row->addIncoming(next, end);
    maximum->addIncoming(next_maximum, end);
    previous_total->addIncoming(row_total, end);
    Value* again = ir_.CreateICmpSLT(next, e_.field_i64(offsetof(SoftmaxArgs, rows)));
    ir_.CreateCondBr(again, body, last);

    last->moveAfter(end);
    ir_.SetInsertPoint(last);
    llvm::PHINode* last_total = ir_.CreatePHI(e_.vector_type, 2);
    last_total->addIncoming(total, first_end);
    last_total->addIncoming(row_total, end);
    Value* last_row = ir_.CreateSub(e_.field_i64(offsetof(SoftmaxArgs, rows)), e_.constant(1));
    emit_scaling({dst_row(last_row), last_total});
}

void SoftmaxEmitter::emit() {
    llvm::BasicBlock* begin = e_.block("begin");
    llvm::BasicBlock* done = e_.block("done");
    Value* rows = e_.field_i64(offsetof(SoftmaxArgs, rows));
    Value* columns = e_.field_i64(offsetof(SoftmaxArgs, columns));
    ir_.CreateCondBr(ir_.CreateAnd(ir_.CreateICmpSGT(rows, e_.constant(0)),
                                   ir_.CreateICmpSGT(columns, e_.constant(0))),
                     begin, done);
    ir_.SetInsertPoint(begin);
    emit_rows();
    ir_.CreateBr(done);
    done->moveAfter(ir_.GetInsertBlock());
    ir_.SetInsertPoint(done);
    ir_.CreateRetVoid();
}

}  // namespace

void emit_softmax(llvm::Module& module, const MicrokernelSpec& spec) {
    SoftmaxEmitter(module, spec).emit();
}

}  // namespace whet::jit::cpu
