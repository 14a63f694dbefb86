// SPDX-License-Identifier: Apache-2.0
// Object file -> position-independent block: layout of sections and resolution of references inside
// it.
#include <llvm/BinaryFormat/ELF.h>
#include <llvm/Object/ELFObjectFile.h>

#include <cstring>
#include <map>

#include "jit/cpu/code_generator.hpp"
#include "jit/cpu/emit.hpp"

namespace whet::jit::cpu {
namespace {

using llvm::object::ELF64LEObjectFile;
using llvm::object::SectionRef;

constexpr std::size_t kBlockAlignment = 64;  // what Blob promises; no section may ask for more

class Linker {
public:
    Linker(const MicrokernelSpec& spec, const ELF64LEObjectFile& object)
        : spec_(spec), object_(object) {}
    base::Result<Blob> link();

private:
    template <typename... Values>
    base::Error refuse(const char* format, Values... values) {
        return base::make_error(base::Code::compile_failed, format, values...);
    }
    base::Result<void> place_sections(bool text);
    base::Result<void> find_entry();
    base::Result<void> relocate();
    base::Result<void> apply(const llvm::object::ELFRelocationRef& relocation,
                             std::size_t section_start);

    const MicrokernelSpec& spec_;
    const ELF64LEObjectFile& object_;
    std::map<uint64_t, std::size_t> starts_;  ///< section index -> offset in the block
    Blob blob_;
};

base::Result<void> Linker::place_sections(bool text) {
    for (const auto& section : object_.sections()) {
        const uint64_t flags = llvm::object::ELFSectionRef(section).getFlags();
        if (!(flags & llvm::ELF::SHF_ALLOC) || section.getSize() == 0 || section.isText() != text)
            continue;
        if (flags & llvm::ELF::SHF_WRITE)
            return refuse("%s has writable data", spec_.print().c_str());
        if (section.getAlignment().value() > kBlockAlignment)
            return refuse("a section is aligned past %zu", kBlockAlignment);
        auto contents = section.getContents();
        if (!contents)
            return refuse("unreadable section: %s", llvm::toString(contents.takeError()).c_str());
        auto& bytes = blob_.bytes;
        bytes.resize(llvm::alignTo(bytes.size(), section.getAlignment().value()), text ? 0xcc : 0);
        starts_[section.getIndex()] = bytes.size();
        bytes.insert(bytes.end(), contents->bytes_begin(), contents->bytes_end());
    }
    return {};
}

base::Result<void> Linker::find_entry() {
    for (const auto& symbol : object_.symbols()) {
        auto name = symbol.getName();
        if (!name || *name != kEntryName) continue;
        auto section = symbol.getSection();
        auto value = symbol.getValue();
        if (!section || !value || *section == object_.section_end()) break;
        const auto start = starts_.find((*section)->getIndex());
        if (start == starts_.end()) break;
        blob_.entry = static_cast<uint32_t>(start->second + *value);
        return {};
    }
    return refuse("the object of %s has no entry", spec_.print().c_str());
}

base::Result<void> Linker::apply(const llvm::object::ELFRelocationRef& relocation,
                                 std::size_t section_start) {
    const uint64_t type = relocation.getType();
    const auto symbol = relocation.getSymbol();
    if (type != llvm::ELF::R_X86_64_PC32 && type != llvm::ELF::R_X86_64_PLT32) {
        return refuse("%s needs relocation type %llu", spec_.print().c_str(),
                      static_cast<unsigned long long>(type));
    }
    if (symbol == object_.symbol_end())
        return refuse("a relocation of %s has no symbol", spec_.print().c_str());
    auto section = symbol->getSection();
    auto value = symbol->getValue();
    if (!section || !value || *section == object_.section_end()) {
        auto name = symbol->getName();
        return refuse("%s needs the outside symbol %s", spec_.print().c_str(),
                      name ? name->str().c_str() : "?");
    }
    const auto target = starts_.find((*section)->getIndex());
    if (target == starts_.end())
        return refuse("a relocation of %s leaves the block", spec_.print().c_str());
    auto addend = relocation.getAddend();
    if (!addend) return refuse("unreadable addend: %s", llvm::toString(addend.takeError()).c_str());
    const std::size_t place = section_start + relocation.getOffset();
    const int64_t distance =
        static_cast<int64_t>(target->second + *value) + *addend - static_cast<int64_t>(place);
    if (place + 4 > blob_.bytes.size() || distance != static_cast<int32_t>(distance)) {
        return refuse("a relocation of %s is out of range", spec_.print().c_str());
    }
    const auto stored = static_cast<int32_t>(distance);
    std::memcpy(blob_.bytes.data() + place, &stored, sizeof stored);
    return {};
}

base::Result<void> Linker::relocate() {
    for (const auto& section : object_.sections()) {
        auto relocated = section.getRelocatedSection();
        if (!relocated || *relocated == object_.section_end()) continue;
        const auto start = starts_.find((*relocated)->getIndex());
        if (start == starts_.end()) continue;  // not loaded: notes and the like
        for (const auto& relocation : section.relocations())
            WHET_TRY_VOID(apply(relocation, start->second));
    }
    return {};
}

base::Result<Blob> Linker::link() {
    blob_.spec = spec_;
    WHET_TRY_VOID(place_sections(true));
    blob_.text_bytes = static_cast<uint32_t>(blob_.bytes.size());
    WHET_TRY_VOID(place_sections(false));
    WHET_TRY_VOID(find_entry());
    WHET_TRY_VOID(relocate());
    return std::move(blob_);
}

}  // namespace

base::Result<Blob> link_blob(const MicrokernelSpec& spec, llvm::MemoryBufferRef object) {
    auto file = llvm::object::ObjectFile::createELFObjectFile(object);
    if (!file) {
        return base::make_error(base::Code::compile_failed, "unreadable object: %s",
                                llvm::toString(file.takeError()).c_str());
    }
    const auto* elf = llvm::dyn_cast<ELF64LEObjectFile>(file->get());
    if (elf == nullptr)
        return base::make_error(base::Code::compile_failed,
                                "the object is not little-endian ELF64");
    return Linker(spec, *elf).link();
}

}  // namespace whet::jit::cpu
