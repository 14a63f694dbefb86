// SPDX-License-Identifier: Apache-2.0
// The framed messages between a program's tuner thread and its forge, the same for both hosts (process, thread).
//
// Transport: a connected AF_UNIX SOCK_STREAM pair. Frame: FrameHeader, then `bytes` of payload. Payloads are written and
// read by Writer and Reader below (native byte order, both ends are one build: Hello carries the build's identity).
// The forge ends when the socket closes; the tuner restarts a forge that ends (with back-off), and counts it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <whet/whet.h>

#include "base/status.hpp"
#include "jit/microkernel.hpp"

namespace whet::runtime::forge {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint32_t kMaxFrameBytes = 64u << 20;

/// Identity of the build on both ends of a socket: the library's version and the text of every source that decides what
/// frames, operations and schedules mean.
uint64_t build_id() noexcept;

/// Empty, or why a hello is not of this build (got, expected, what to do). Reads only what every version puts first.
std::string why_refused(const std::vector<uint8_t>& hello);

enum class Message : uint32_t {
    // tuner -> forge
    hello = 1,     ///< HelloMessage: first, once
    site = 2,      ///< SiteMessage: a site became known
    profile = 3,   ///< ProfileMessage: what the sites cost now (replaces the last one)
    verdict = 4,   ///< VerdictMessage: what became of an offered plan in the program
    control = 5,   ///< ControlMessage: pause, resume, budget
    plant = 6,     ///< PlantMessage: test hook
    text = 7,      ///< TextMessage: a question of the command line
    // forge -> tuner
    ready = 64,    ///< ReadyMessage: the forge runs
    offer = 65,    ///< OfferMessage: a verified plan for a site
    status = 66,   ///< StatusMessage: counters, about ten times a second and after every event
    reply = 67,    ///< TextMessage: an answer (several frames, the last with `last` set)
    log = 68,      ///< LogMessage
    refused = 69,  ///< TextMessage: the hello is of another build; the forge ends
};

struct FrameHeader {
    Message type;
    uint32_t bytes;
};

/// Appends plain values, strings and byte blocks to a payload.
class Writer {
public:
    template <typename T>
    void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        const auto* p = reinterpret_cast<const uint8_t*>(&value);
        bytes_.insert(bytes_.end(), p, p + sizeof(T));
    }
    void put_bytes(const void* data, size_t size) {
        put<uint64_t>(size);
        const auto* p = static_cast<const uint8_t*>(data);
        bytes_.insert(bytes_.end(), p, p + size);
    }
    void put_string(std::string_view text) { put_bytes(text.data(), text.size()); }
    const std::vector<uint8_t>& bytes() const { return bytes_; }

private:
    std::vector<uint8_t> bytes_;
};

/// Reads what Writer wrote; after any overrun every further get gives zeros and ok() is false.
class Reader {
public:
    Reader(const uint8_t* data, size_t size) : data_(data), size_(size) {}
    template <typename T>
    T get() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        if (size_ - at_ < sizeof(T)) { fail(); return value; }
        std::memcpy(&value, data_ + at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }
    std::vector<uint8_t> get_bytes() {
        const auto size = get<uint64_t>();
        if (!ok_ || size_ - at_ < size) { fail(); return {}; }
        std::vector<uint8_t> out(data_ + at_, data_ + at_ + size);
        at_ += size;
        return out;
    }
    std::string get_string() {
        const auto bytes = get_bytes();
        return std::string(bytes.begin(), bytes.end());
    }
    bool ok() const { return ok_; }

private:
    void fail() { ok_ = false; at_ = size_; }
    const uint8_t* data_;
    size_t size_;
    size_t at_ = 0;
    bool ok_ = true;
};

/// Identity of a site on the wire: the hash of its canonical operation (runtime/dispatch makes it, one function).
using SiteId = uint64_t;

struct HelloMessage {
    uint32_t version = kProtocolVersion;  ///< these two come first in every version
    uint64_t build_id = forge::build_id();
    int32_t pid = 0;
    jit::Isa isa = jit::Isa::portable;
    uint32_t mxcsr = 0x1f80;   ///< of the application's first calling thread; trials copy it
    std::string directory;     ///< where libwhet_forge.so, libwhet_llvm.so and microkernels.bin lie
    std::vector<std::string> environment;  ///< the WHET_ variables, NAME=value: parsed by the same options table
};

struct SiteMessage {
    SiteId site = 0;
    SiteId family = 0;         ///< sites that differ only in symbolic extents share it
    whet_op op{};              ///< with the frozen bits as the call sees them
};

struct ProfileEntry {
    SiteId site = 0;
    uint64_t calls = 0;        ///< since the program began
    double total_ns = 0;       ///< estimated from sampled calls
    double recent_calls_per_s = 0;
};
struct ProfileMessage {
    std::vector<ProfileEntry> entries;
};

enum class VerdictKind : uint32_t {
    adopted = 1,        ///< serves
    declined = 2,       ///< right but not faster in the program
    rolled_back = 3,    ///< served, then regretted (slower): do not offer again
    wrong = 4,          ///< a shadow check failed: quarantine the schedule, also after a restart
    original_kept = 5,  ///< the family stays with the original
    no_room = 6,        ///< code or packed budget used up
};
struct VerdictMessage {
    SiteId site = 0;
    VerdictKind kind = VerdictKind::adopted;
    std::string schedule;      ///< as text
    double ratio = 0;          ///< incumbent time / offered time, where measured
};

struct ControlMessage {
    uint8_t paused = 0;
    double cpu_share = 1.0;        ///< of one core, the most the forge may use from now on
    double seconds_left = -1;      ///< CPU seconds; negative: unlimited
    int64_t trials_left = -1;      ///< negative: unlimited
};

struct PlantMessage {
    SiteId site = 0;
    uint8_t is_blob = 0;           ///< 1: raw code of one tile microkernel for the site's zero-trial schedule
    uint8_t skip_static = 0;
    std::vector<uint8_t> content;  ///< schedule text or code
};

struct TextMessage {
    uint64_t id = 0;
    uint8_t last = 1;
    std::string text;
};

struct ReadyMessage {
    int32_t pid = 0;
    uint8_t in_process = 0;        ///< thread mode
    std::string note;              ///< e.g. "store unwritable, tuning without one"; empty when all is well
};

enum class OfferKind : uint32_t {
    zero_trial = 1,  ///< the analytical plan from prebuilt microkernels, verified, not timed against others
    tuned = 2,       ///< beat the incumbent in paired timings
    stored = 3,      ///< from the store (own blobs)
    lent = 4,        ///< the plan of its family's nearest row count: microkernels verified alone, not run as a whole
};
struct OfferMessage {
    SiteId site = 0;
    OfferKind kind = OfferKind::zero_trial;
    std::string schedule;              ///< parsed and lowered again by the program: plans are cheap
    std::vector<jit::Blob> blobs;      ///< one per kernel of the lowered plan, matched by spec
    double estimate_ns = 0;            ///< the forge's time of one call (cold weights, warm activations)
    double ratio = 0, low = 0, high = 0;  ///< incumbent time / this time with its 95 % interval; 0 when none
    double bound_ns = 0;               ///< max(flops / measured peak, bytes / measured bandwidth)
    uint8_t served_before = 0;         ///< stored: a program on this machine served it, faster than its original
    uint8_t ahead = 0;                 ///< stored: of an operation that the program has not called yet
    whet_op op{};                      ///< ... which is this one
};

struct StatusMessage {
    uint64_t trials = 0, compiles = 0, trials_without_compile = 0;
    uint64_t rejected_static = 0, rejected_wrong = 0, rejected_crashed = 0, rejected_slow = 0;
    double cpu_seconds = 0;            ///< of the forge since it began, all threads
    double build_ms_p50 = 0, build_ms_p95 = 0;
    double peak_gflops = 0, stream_gbs = 0;
    uint32_t sites_open = 0, sites_settled = 0;
    SiteId working_on = 0;
    std::string doing;                 ///< e.g. "measure matmul 32x384x1536"
};

struct LogMessage {
    uint32_t level = 0;
    std::string text;
};

/// Payloads of messages; decode fails with invalid_argument on a short or malformed one.
template <typename T>
struct Codec {
    static std::vector<uint8_t> encode(const T& message);
    static base::Result<T> decode(const uint8_t* data, size_t size);
};
template <typename T>
std::vector<uint8_t> encode(const T& message) { return Codec<T>::encode(message); }
template <typename T>
base::Result<T> decode(const uint8_t* data, size_t size) { return Codec<T>::decode(data, size); }

/// Sends one frame / receives one frame (blocking, EINTR-safe, SIGPIPE-free). io_error when the peer is gone.
base::Result<void> send_frame(int socket, Message type, const std::vector<uint8_t>& payload);
base::Result<Message> receive_frame(int socket, std::vector<uint8_t>& payload);

}  // namespace whet::runtime::forge
