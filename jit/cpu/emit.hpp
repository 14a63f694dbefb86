// SPDX-License-Identifier: Apache-2.0
// Microkernel spec -> LLVM IR in its final SSA form; private to libwhet_llvm.so.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <vector>

#include "jit/microkernel.hpp"

namespace whet::jit::cpu {

/// Name of the one function of a module.
inline constexpr const char* kEntryName = "whet_microkernel";

/// Adds the function `spec` means to `module`. The spec passed check() and its isa is avx2 or
/// avx512.
void emit_tile(llvm::Module& module, const MicrokernelSpec& spec);
void emit_softmax(llvm::Module& module, const MicrokernelSpec& spec);

/// What both emitters share: the function, typed loads of argument fields, masks and vector
/// operations of one ISA. Fields are loaded where they are used, not once at the top: the argument
/// struct then serves as the spill area and the innermost loops keep their general registers for
/// addresses.
class Emitter {
public:
    Emitter(llvm::Module& module, Isa isa, Element element);

    llvm::IRBuilder<> ir;
    llvm::LLVMContext& context;
    llvm::Module& module;
    llvm::Function* function;
    const Isa isa;
    const Element element;
    const int lanes;
    const int64_t bytes;      ///< of one element
    llvm::Type* const value;  ///< of one element
    llvm::Type* const i64;
    llvm::Type* const pointer;
    llvm::FixedVectorType* const vector_type;

    llvm::BasicBlock* block(const char* name);
    /// Continues in a new basic block. Instruction selection orders within a block only and pulls
    /// neighbouring loads together there, which costs registers; the blocks are joined again when
    /// all registers are given.
    void fence_schedule();
    llvm::Value* constant(int64_t number) {
        return llvm::ConstantInt::get(i64, static_cast<uint64_t>(number), true);
    }
    llvm::Constant* vector_constant(float value);
    /// Address of a read-only 1.
    llvm::Value* one();

    llvm::Value* field_i64(std::size_t offset);
    llvm::Value* field_pointer(std::size_t offset);
    llvm::Value* field_value(std::size_t offset);
    /// Loads an element count and turns it into bytes.
    llvm::Value* field_bytes(std::size_t offset) { return bytes_of(field_i64(offset)); }
    llvm::Value* bytes_of(llvm::Value* elements) {
        return ir.CreateShl(elements, element == Element::f64 ? 3 : 2);
    }

    llvm::Value* advance(llvm::Value* base, llvm::Value* by) {
        return ir.CreateGEP(ir.getInt8Ty(), base, by);
    }
    llvm::Value* advance(llvm::Value* base, int64_t by);
    llvm::Value* load_scalar(llvm::Value* address) {
        return ir.CreateAlignedLoad(value, address, align());
    }
    llvm::Value* load(llvm::Value* address) {
        return ir.CreateAlignedLoad(vector_type, address, align());
    }
    void store(llvm::Value* vector, llvm::Value* address) {
        ir.CreateAlignedStore(vector, address, align());
    }
    llvm::Value* splat(llvm::Value* scalar) {
        return ir.CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
    }
    llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
    llvm::Align align() const { return llvm::Align(static_cast<uint64_t>(bytes)); }
    /// Keeps `kept` in its register until `after` is computed, by an empty statement. A factor
    /// that dies in its FMA would be chosen as the register to overwrite, and the sums would wander
    /// from register to register.
    void keep_alive(llvm::Value* kept, llvm::Value* after);
    /// b where a > b is false, also when either is NaN: (v)maxps, (v)maxpd.
    llvm::Value* maximum(llvm::Value* a, llvm::Value* b);

    /// Prepares masks for the first `count` of `width` lanes, without the first `skipped` ones of
    /// those if given; 1 <= count, skipped < count. AVX-512: mask registers by a shift; AVX2:
    /// windows into a table of ones and zeros, loaded where they are used.
    struct Masks {
        llvm::Value* window = nullptr;        ///< AVX2: address of vector 0's mask
        llvm::Value* skipped = nullptr;       ///< AVX2: the same of the skipped lanes, or null
        std::vector<llvm::Value*> registers;  ///< AVX-512: one <lanes x i1> a vector
    };
    Masks make_masks(llvm::Value* count, int width, llvm::Value* skipped = nullptr);
    llvm::Value* masked_load(const Masks& masks, int v, llvm::Value* address);
    void masked_store(const Masks& masks, int v, llvm::Value* vector, llvm::Value* address);
    /// vector where the mask is set, else `other`; f32 only.
    llvm::Value* masked_select(const Masks& masks, int v, llvm::Value* vector, llvm::Value* other);

private:
    llvm::Value* avx2_mask(const Masks& masks, int v);
};

/// Addresses of rows base + r * stride from few registers: bases at some rows, and from those the
/// x86 forms base + {1, 2, 4, 8} * stride and base + {1, 2, 4} * (3 * stride).
class RowAddresses {
public:
    /// `stride` in bytes; computed at the builder's current place.
    RowAddresses(Emitter& emitter, llvm::Value* stride, int rows);
    /// The bases from row 0's address.
    std::vector<llvm::Value*> make_bases(llvm::Value* first) const;
    /// `row`'s address; of make_bases' bases the first ones are enough where they reach it.
    llvm::Value* at(const std::vector<llvm::Value*>& bases, int row) const;

private:
    Emitter* emitter_;
    llvm::Value* stride_;
    llvm::Value* triple_;
    std::vector<int> base_rows_;
};

}  // namespace whet::jit::cpu
