// SPDX-License-Identifier: Apache-2.0
// The shared parts of the emitters: function frame, argument loads, masks, row addresses.
#include "jit/cpu/emit.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace whet::jit::cpu {
namespace {

constexpr const char* kMaskTable = "mask_table";  // one width a module

llvm::Function* make_function(llvm::Module& module) {
    llvm::LLVMContext& context = module.getContext();
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                         {llvm::PointerType::get(context, 0)}, false);
    auto* function =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, kEntryName, module);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    function->addFnAttr("no-builtins");
    function->addFnAttr("frame-pointer", "none");
    function->addFnAttr("prefer-vector-width", "512");
    function->addFnAttr("min-legal-vector-width", "512");
    function->addParamAttr(0, llvm::Attribute::NoAlias);
    function->addParamAttr(0, llvm::Attribute::NonNull);
    function->addParamAttr(0, llvm::Attribute::ReadOnly);
    return function;
}

}  // namespace

Emitter::Emitter(llvm::Module& target, Isa level, Element type)
    : ir(target.getContext()),
      context(target.getContext()),
      module(target),
      function(make_function(target)),
      isa(level),
      element(type),
      lanes(lanes_of(level, type)),
      bytes(jit::bytes_of(type)),
      value(type == Element::f64 ? llvm::Type::getDoubleTy(context)
                                 : llvm::Type::getFloatTy(context)),
      i64(llvm::Type::getInt64Ty(context)),
      pointer(llvm::PointerType::get(context, 0)),
      vector_type(llvm::FixedVectorType::get(value, static_cast<unsigned>(lanes))) {
    ir.SetInsertPoint(block("entry"));
}

llvm::BasicBlock* Emitter::block(const char* name) {
    return llvm::BasicBlock::Create(context, name, function);
}

void Emitter::fence_schedule() {
    llvm::BasicBlock* next = block("fence");
    ir.CreateBr(next);
    ir.SetInsertPoint(next);
}

llvm::Constant* Emitter::vector_constant(float constant) {
    return llvm::ConstantVector::getSplat(vector_type->getElementCount(),
                                          llvm::ConstantFP::get(value, constant));
}

llvm::Value* Emitter::one() {
    return new llvm::GlobalVariable(module, value, true, llvm::GlobalValue::PrivateLinkage,
                                    llvm::ConstantFP::get(value, 1.0), "one");
}

llvm::Value* Emitter::advance(llvm::Value* base, int64_t by) {
    return by == 0 ? base : ir.CreateConstGEP1_64(ir.getInt8Ty(), base, static_cast<uint64_t>(by));
}

llvm::Value* Emitter::field_i64(std::size_t offset) {
    return ir.CreateAlignedLoad(i64, advance(function->getArg(0), static_cast<int64_t>(offset)),
                                llvm::Align(8));
}

llvm::Value* Emitter::field_pointer(std::size_t offset) {
    return ir.CreateAlignedLoad(pointer, advance(function->getArg(0), static_cast<int64_t>(offset)),
                                llvm::Align(8));
}

llvm::Value* Emitter::field_value(std::size_t offset) {
    return load_scalar(advance(function->getArg(0), static_cast<int64_t>(offset)));
}

llvm::Value* Emitter::fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
    return ir.CreateIntrinsic(llvm::Intrinsic::fma, {vector_type}, {a, b, c});
}

void Emitter::keep_alive(llvm::Value* kept, llvm::Value* after) {
    auto* type = llvm::FunctionType::get(ir.getVoidTy(), {vector_type, vector_type}, false);
    ir.CreateCall(llvm::InlineAsm::get(type, "", "x,x", true), {kept, after});
}

llvm::Value* Emitter::maximum(llvm::Value* a, llvm::Value* b) {
    if (isa == Isa::avx512) {
        constexpr int kCurrentRounding = 4;
        return ir.CreateIntrinsic(element == Element::f64 ? llvm::Intrinsic::x86_avx512_max_pd_512
                                                          : llvm::Intrinsic::x86_avx512_max_ps_512,
                                  {}, {a, b, ir.getInt32(kCurrentRounding)});
    }
    return ir.CreateIntrinsic(element == Element::f64 ? llvm::Intrinsic::x86_avx_max_pd_256
                                                      : llvm::Intrinsic::x86_avx_max_ps_256,
                              {}, {a, b});
}

Emitter::Masks Emitter::make_masks(llvm::Value* count, int width, llvm::Value* skipped) {
    Masks masks;
    const int vectors = width / lanes;
    if (isa == Isa::avx512) {
        llvm::Value* ones = ir.CreateLShr(constant(-1), ir.CreateSub(constant(64), count));
        if (skipped != nullptr) ones = ir.CreateAnd(ones, ir.CreateShl(constant(-1), skipped));
        for (int v = 0; v < vectors; ++v) {
            llvm::Value* part =
                ir.CreateTrunc(ir.CreateLShr(ones, static_cast<uint64_t>(lanes * v)),
                               ir.getIntNTy(static_cast<unsigned>(lanes)));
            masks.registers.push_back(ir.CreateBitCast(
                part, llvm::FixedVectorType::get(ir.getInt1Ty(), static_cast<unsigned>(lanes))));
        }
        return masks;
    }
    llvm::GlobalVariable* global = module.getNamedGlobal(kMaskTable);
    if (global == nullptr) {
        const auto size = static_cast<std::size_t>(2 * width);
        std::vector<uint32_t> table(size, 0);
        std::vector<uint64_t> wide_table(size, 0);
        for (std::size_t i = 0; i < size / 2; ++i) table[i] = ~0u, wide_table[i] = ~uint64_t{0};
        auto* data = element == Element::f64 ? llvm::ConstantDataArray::get(context, wide_table)
                                             : llvm::ConstantDataArray::get(context, table);
        global = new llvm::GlobalVariable(module, data->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, data, kMaskTable);
        global->setAlignment(llvm::Align(64));
    }
    masks.window = advance(global, bytes_of(ir.CreateSub(constant(width), count)));
    if (skipped != nullptr)
        masks.skipped = advance(global, bytes_of(ir.CreateSub(constant(width), skipped)));
    return masks;
}

llvm::Value* Emitter::avx2_mask(const Masks& masks, int v) {
    auto* type = llvm::FixedVectorType::get(ir.getIntNTy(static_cast<unsigned>(8 * bytes)),
                                            static_cast<unsigned>(lanes));
    const auto at = [&](llvm::Value* window) {
        return ir.CreateAlignedLoad(type, advance(window, bytes * lanes * v), align());
    };
    llvm::Value* mask = at(masks.window);
    return masks.skipped ? ir.CreateAnd(mask, ir.CreateNot(at(masks.skipped))) : mask;
}

llvm::Value* Emitter::masked_load(const Masks& masks, int v, llvm::Value* address) {
    if (isa == Isa::avx512) {
        return ir.CreateMaskedLoad(vector_type, address, align(),
                                   masks.registers[static_cast<std::size_t>(v)],
                                   llvm::Constant::getNullValue(vector_type));
    }
    return ir.CreateIntrinsic(element == Element::f64 ? llvm::Intrinsic::x86_avx_maskload_pd_256
                                                      : llvm::Intrinsic::x86_avx_maskload_ps_256,
                              {}, {address, avx2_mask(masks, v)});
}

void Emitter::masked_store(const Masks& masks, int v, llvm::Value* vector, llvm::Value* address) {
    if (isa == Isa::avx512) {
        ir.CreateMaskedStore(vector, address, align(),
                             masks.registers[static_cast<std::size_t>(v)]);
        return;
    }
    ir.CreateIntrinsic(element == Element::f64 ? llvm::Intrinsic::x86_avx_maskstore_pd_256
                                               : llvm::Intrinsic::x86_avx_maskstore_ps_256,
                       {}, {address, avx2_mask(masks, v), vector});
}

llvm::Value* Emitter::masked_select(const Masks& masks, int v, llvm::Value* vector,
                                    llvm::Value* other) {
    if (isa == Isa::avx512)
        return ir.CreateSelect(masks.registers[static_cast<std::size_t>(v)], vector, other);
    llvm::Value* mask = ir.CreateBitCast(avx2_mask(masks, v), vector_type);
    return ir.CreateIntrinsic(llvm::Intrinsic::x86_avx_blendv_ps_256, {}, {other, vector, mask});
}

namespace {

/// Rows that have a base. Five rows from each by small multiples, but 16 rows in all from three.
std::vector<int> rows_with_base(int rows) {
    constexpr int kRowsPerBase = 5;
    if (rows == 16) return {0, 2, 7};
    std::vector<int> bases;
    for (int row = 0; row < rows; row += kRowsPerBase) bases.push_back(row);
    return bases;
}

}  // namespace

RowAddresses::RowAddresses(Emitter& emitter, llvm::Value* stride, int rows)
    : emitter_(&emitter),
      stride_(stride),
      triple_(emitter.ir.CreateMul(stride, emitter.constant(3))),
      base_rows_(rows_with_base(rows)) {}

std::vector<llvm::Value*> RowAddresses::make_bases(llvm::Value* first) const {
    std::vector<llvm::Value*> bases = {first};
    for (std::size_t i = 1; i < base_rows_.size(); ++i) {
        llvm::Value* step = emitter_->constant(base_rows_[i] - base_rows_[i - 1]);
        bases.push_back(emitter_->advance(bases.back(), emitter_->ir.CreateMul(stride_, step)));
    }
    return bases;
}

llvm::Value* RowAddresses::at(const std::vector<llvm::Value*>& bases, int row) const {
    for (std::size_t i = bases.size(); i-- > 0;) {
        switch (row - base_rows_[i]) {
            case 0: return bases[i];
            case 1: return emitter_->advance(bases[i], stride_);
            case 2: return emitter_->advance(bases[i], emitter_->ir.CreateShl(stride_, 1));
            case 3: return emitter_->advance(bases[i], triple_);
            case 4: return emitter_->advance(bases[i], emitter_->ir.CreateShl(stride_, 2));
            case 6: return emitter_->advance(bases[i], emitter_->ir.CreateShl(triple_, 1));
            case 8: return emitter_->advance(bases[i], emitter_->ir.CreateShl(stride_, 3));
            case 12: return emitter_->advance(bases[i], emitter_->ir.CreateShl(triple_, 2));
            default: break;
        }
    }
    return nullptr;
}

}  // namespace whet::jit::cpu
