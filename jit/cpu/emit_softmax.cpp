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

constexpr int kRowLanes = 64;        // numerics.py, ROW_LANES
constexpr int kRowSegment = 8192;    // numerics.py, ROW_SEGMENT
constexpr int kBlockBytes = 4 * kRowLanes;

class SoftmaxEmitter {
public:
    SoftmaxEmitter(llvm::Module& module, const MicrokernelSpec& spec)
        : e_(module, spec.isa), ir_(e_.ir), vectors_(kRowLanes / e_.lanes) {}
    void emit();

private:
    /// Emits one block of 64 elements at byte `offset` of the row: takes and returns the carried values.
    using Block = std::function<Values(Value* offset, bool masked, const Values& carried)>;

    Values emit_blocks(Value* first, Value* end, const Values& carried, const Block& block);
    Values emit_tail(Value* offset, Value* condition, const Values& carried, const Block& block);
    Value* address(Value* row, Value* offset, int v) {
        return e_.advance(e_.advance(row, offset), int64_t{4} * e_.lanes * v);
    }
    Value* emit_maximum(Value* src);
    Value* emit_exponentials(Value* src, Value* dst, Value* maximum);
    void emit_scaling(Value* dst, Value* total);
    Value* exponential(Value* x);
    Value* reduce(Values values, const std::function<Value*(Value*, Value*)>& combine);

    Emitter e_;
    llvm::IRBuilder<>& ir_;
    const int vectors_;  ///< vectors of a block
    Emitter::Masks masks_;
    Value* whole_bytes_ = nullptr;  ///< bytes of the whole blocks of a row
    Value* has_tail_ = nullptr;
};

/// for (offset = first; offset < end; offset += 64 floats) carried = block(offset, carried)
Values SoftmaxEmitter::emit_blocks(Value* first, Value* end, const Values& carried, const Block& block) {
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
Values SoftmaxEmitter::emit_tail(Value* offset, Value* condition, const Values& carried, const Block& block) {
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* body = e_.block("tail");
    llvm::BasicBlock* done = e_.block("tail_done");
    ir_.CreateCondBr(condition, body, done);
    ir_.SetInsertPoint(body);
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

/// Halves until one lane is left, lane[i] = combine(lane[i], lane[i + n / 2]); returns the splat of it.
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
    Value* power = ir_.CreateBitCast(ir_.CreateShl(ir_.CreateBitCast(shifted, bits), kExponentShift), e_.vector_type);
    return ir_.CreateFMul(ir_.CreateFMul(p, power), e_.vector_constant(C::kDownscale));
}

Value* SoftmaxEmitter::emit_maximum(Value* src) {
    Value* lowest = e_.vector_constant(-std::numeric_limits<float>::infinity());
    Values maxima(static_cast<std::size_t>(vectors_), lowest);
    const Block block = [&](Value* offset, bool masked, const Values& carried) {
        Values now;
        for (int v = 0; v < vectors_; ++v) {
            Value* place = address(src, offset, v);
            Value* x = masked ? e_.masked_select(masks_, v, e_.masked_load(masks_, v, place), lowest) : e_.load(place);
            now.push_back(e_.maximum(carried[static_cast<std::size_t>(v)], x));
        }
        return now;
    };
    maxima = emit_blocks(e_.constant(0), whole_bytes_, maxima, block);
    maxima = emit_tail(whole_bytes_, has_tail_, maxima, block);
    return reduce(maxima, [&](Value* a, Value* b) { return e_.maximum(a, b); });
}

/// Stores e = exp(x - m) and returns the splat of their segmented sum.
Value* SoftmaxEmitter::emit_exponentials(Value* src, Value* dst, Value* maximum) {
    const Block block = [&](Value* offset, bool masked, const Values& carried) {
        Values now;
        for (int v = 0; v < vectors_; ++v) {
            if (v > 0) e_.fence_schedule();
            Value* place = address(src, offset, v);
            Value* x = masked ? e_.masked_load(masks_, v, place) : e_.load(place);
            Value* power = exponential(ir_.CreateFSub(x, maximum));
            if (masked) {
                e_.masked_store(masks_, v, power, address(dst, offset, v));
                power = e_.masked_select(masks_, v, power, llvm::Constant::getNullValue(e_.vector_type));
            } else {
                e_.store(power, address(dst, offset, v));
            }
            now.push_back(ir_.CreateFAdd(carried[static_cast<std::size_t>(v)], power));
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
    Value* is_last = ir_.CreateICmpSLE(whole_bytes_, next);
    Value* end = ir_.CreateSelect(is_last, whole_bytes_, next);
    Values sums = emit_blocks(first, end, zeros, block);
    // The tail belongs to this segment unless the whole blocks fill it: then it is a segment of its own.
    Value* has_room = ir_.CreateICmpSLT(whole_bytes_, next);
    sums = emit_tail(whole_bytes_, ir_.CreateAnd(has_tail_, has_room), sums, block);
    Value* sum = ir_.CreateFAdd(total, reduce(sums, [&](Value* a, Value* b) { return ir_.CreateFAdd(a, b); }));
    Value* bytes = e_.field_bytes(offsetof(SoftmaxArgs, columns));
    first->addIncoming(next, ir_.GetInsertBlock());
    total->addIncoming(sum, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, bytes), segment, done);
    ir_.SetInsertPoint(done);
    return sum;
}

void SoftmaxEmitter::emit_scaling(Value* dst, Value* total) {
    const Block block = [&](Value* offset, bool masked, const Values& carried) {
        for (int v = 0; v < vectors_; ++v) {
            Value* place = address(dst, offset, v);
            if (masked) {
                e_.masked_store(masks_, v, ir_.CreateFDiv(e_.masked_load(masks_, v, place), total), place);
            } else {
                e_.store(ir_.CreateFDiv(e_.load(place), total), place);
            }
        }
        return carried;
    };
    emit_blocks(e_.constant(0), whole_bytes_, {}, block);
    emit_tail(whole_bytes_, has_tail_, {}, block);
}

void SoftmaxEmitter::emit() {
    llvm::BasicBlock* begin = e_.block("begin");
    llvm::BasicBlock* body = e_.block("row");
    llvm::BasicBlock* done = e_.block("done");
    Value* rows = e_.field_i64(offsetof(SoftmaxArgs, rows));
    Value* columns = e_.field_i64(offsetof(SoftmaxArgs, columns));
    ir_.CreateCondBr(ir_.CreateAnd(ir_.CreateICmpSGT(rows, e_.constant(0)), ir_.CreateICmpSGT(columns, e_.constant(0))),
                     begin, done);
    ir_.SetInsertPoint(begin);
    Value* tail = ir_.CreateAnd(columns, e_.constant(kRowLanes - 1));
    has_tail_ = ir_.CreateICmpNE(tail, e_.constant(0));
    whole_bytes_ = e_.bytes_of(ir_.CreateSub(columns, tail));
    masks_ = e_.make_masks(tail, kRowLanes);
    ir_.CreateBr(body);

    ir_.SetInsertPoint(body);
    llvm::PHINode* row = ir_.CreatePHI(e_.i64, 2);
    row->addIncoming(e_.constant(0), begin);
    Value* src = e_.advance(e_.field_pointer(offsetof(SoftmaxArgs, src)),
                            ir_.CreateMul(row, e_.field_bytes(offsetof(SoftmaxArgs, src_row))));
    Value* dst = e_.advance(e_.field_pointer(offsetof(SoftmaxArgs, dst)),
                            ir_.CreateMul(row, e_.field_bytes(offsetof(SoftmaxArgs, dst_row))));
    Value* maximum = emit_maximum(src);
    emit_scaling(dst, emit_exponentials(src, dst, maximum));
    Value* next = ir_.CreateAdd(row, e_.constant(1));
    row->addIncoming(next, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, e_.field_i64(offsetof(SoftmaxArgs, rows))), body, done);
    done->moveAfter(ir_.GetInsertBlock());
    ir_.SetInsertPoint(done);
    ir_.CreateRetVoid();
}

}  // namespace

void emit_softmax(llvm::Module& module, const MicrokernelSpec& spec) { SoftmaxEmitter(module, spec).emit(); }

}  // namespace whet::jit::cpu
