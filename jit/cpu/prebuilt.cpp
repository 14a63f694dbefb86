// SPDX-License-Identifier: Apache-2.0
// Layout of microkernels.bin: header, entries sorted by spec text, texts, blobs on 64-byte
// boundaries.
#include "jit/cpu/prebuilt.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "jit/cpu/compiler.hpp"

namespace whet::jit::cpu {
namespace {

constexpr char kMagic[8] = {'W', 'H', 'E', 'T', 'M', 'K', '0', '2'};
constexpr std::size_t kBlobAlignment = 64;

struct Header {
    char magic[8];
    char generator[24];  ///< generator_identity(), zeros behind it
    uint32_t count;
    uint32_t zero;
    uint64_t file_bytes;
    uint64_t checksum;  ///< of everything behind the header
};

struct Entry {
    uint32_t text_offset, text_bytes;  ///< the spec's text
    uint32_t blob_offset, blob_bytes;
    uint32_t entry, code_bytes;
};

/// FNV-1a over 8-byte words: the file is padded to them.
uint64_t checksum_of(const uint8_t* bytes, std::size_t count) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (std::size_t i = 0; i + 8 <= count; i += 8) {
        uint64_t word = 0;
        std::memcpy(&word, bytes + i, sizeof word);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    return hash;
}

std::size_t align_up(std::size_t value) {
    return (value + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment;
}

bool inside(uint64_t offset, uint64_t bytes, uint64_t whole) {
    return offset <= whole && bytes <= whole - offset;
}

}  // namespace

struct Prebuilt::Mapping {
    const uint8_t* bytes = nullptr;
    std::size_t size = 0;

    Mapping(const uint8_t* first, std::size_t count) : bytes(first), size(count) {}
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() { munmap(const_cast<uint8_t*>(bytes), size); }
};

base::Result<Prebuilt> Prebuilt::open(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return base::make_error(base::Code::io_error, "cannot open %s: %s", path.c_str(),
                                std::strerror(errno));
    struct stat status = {};
    const bool sized =
        fstat(file, &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(Header));
    const auto size = static_cast<std::size_t>(sized ? status.st_size : 0);
    void* mapped = sized ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    if (mapped == MAP_FAILED)
        return base::make_error(base::Code::io_error, "cannot map %s", path.c_str());

    Prebuilt prebuilt;
    prebuilt.mapping_ = std::make_shared<const Mapping>(static_cast<const uint8_t*>(mapped), size);
    const uint8_t* bytes = prebuilt.mapping_->bytes;
    Header header;
    std::memcpy(&header, bytes, sizeof header);
    if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
        return base::make_error(base::Code::io_error, "%s is no file of microkernels of this version",
                                path.c_str());
    const std::string_view generator(header.generator,
                                     strnlen(header.generator, sizeof header.generator));
    if (generator != generator_identity()) {
        return base::make_error(base::Code::io_error,
                                "%s: got generator %.*s, expected %s: install the files of one build",
                                path.c_str(), static_cast<int>(generator.size()), generator.data(),
                                std::string(generator_identity()).c_str());
    }
    if (header.file_bytes != size ||
        !inside(sizeof header, uint64_t{header.count} * sizeof(Entry), size) ||
        header.checksum != checksum_of(bytes + sizeof header, size - sizeof header)) {
        return base::make_error(base::Code::io_error, "%s is damaged", path.c_str());
    }
    for (uint32_t i = 0; i < header.count; ++i) {
        Entry entry;
        std::memcpy(&entry, bytes + sizeof header + i * sizeof entry, sizeof entry);
        if (!inside(entry.text_offset, entry.text_bytes, size) ||
            !inside(entry.blob_offset, entry.blob_bytes, size)) {
            return base::make_error(base::Code::io_error, "%s is damaged", path.c_str());
        }
        prebuilt.texts_.emplace_back(reinterpret_cast<const char*>(bytes + entry.text_offset),
                                     entry.text_bytes);
        prebuilt.views_.push_back(
            {{bytes + entry.blob_offset, entry.blob_bytes}, entry.entry, entry.code_bytes});
    }
    return prebuilt;
}

std::optional<BlobView> Prebuilt::find(const MicrokernelSpec& spec) const {
    const std::string text = spec.print();
    const auto found = std::lower_bound(texts_.begin(), texts_.end(), std::string_view(text));
    if (found == texts_.end() || *found != text) return std::nullopt;
    return views_[static_cast<std::size_t>(found - texts_.begin())];
}

std::optional<Blob> Prebuilt::copy(const MicrokernelSpec& spec) const {
    const auto view = find(spec);
    if (!view) return std::nullopt;
    return Blob{spec, std::vector<uint8_t>(view->bytes.begin(), view->bytes.end()), view->entry,
                view->text_bytes};
}

base::Result<void> write_prebuilt(const std::string& path, std::vector<Blob> blobs) {
    std::vector<std::pair<std::string, const Blob*>> sorted;
    for (const Blob& blob : blobs) sorted.emplace_back(blob.spec.print(), &blob);
    std::sort(sorted.begin(), sorted.end());
    std::vector<uint8_t> bytes(sizeof(Header) + sorted.size() * sizeof(Entry));
    std::vector<Entry> entries(sorted.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        const std::string& text = sorted[i].first;
        if (i > 0 && text == sorted[i - 1].first) {
            return base::make_error(base::Code::invalid_argument, "%s is listed twice",
                                    text.c_str());
        }
        entries[i].text_offset = static_cast<uint32_t>(bytes.size());
        entries[i].text_bytes = static_cast<uint32_t>(text.size());
        bytes.insert(bytes.end(), text.begin(), text.end());
    }
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        const Blob& blob = *sorted[i].second;
        bytes.resize(align_up(bytes.size()));
        entries[i].blob_offset = static_cast<uint32_t>(bytes.size());
        entries[i].blob_bytes = static_cast<uint32_t>(blob.bytes.size());
        entries[i].entry = blob.entry;
        entries[i].code_bytes = blob.text_bytes;
        bytes.insert(bytes.end(), blob.bytes.begin(), blob.bytes.end());
    }
    bytes.resize(align_up(bytes.size()));
    if (!entries.empty())
        std::memcpy(bytes.data() + sizeof(Header), entries.data(), entries.size() * sizeof(Entry));
    Header header = {};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    generator_identity().copy(header.generator, sizeof header.generator);
    header.count = static_cast<uint32_t>(sorted.size());
    header.file_bytes = bytes.size();
    header.checksum = checksum_of(bytes.data() + sizeof header, bytes.size() - sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);

    const std::string aside = path + ".new";
    std::FILE* file = std::fopen(aside.c_str(), "wb");
    if (file == nullptr)
        return base::make_error(base::Code::io_error, "cannot write %s", aside.c_str());
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    const bool closed = std::fclose(file) == 0;
    if (!written || !closed || std::rename(aside.c_str(), path.c_str()) != 0) {
        std::remove(aside.c_str());
        return base::make_error(base::Code::io_error, "cannot write %s", path.c_str());
    }
    return {};
}

}  // namespace whet::jit::cpu
