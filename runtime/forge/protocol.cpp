// SPDX-License-Identifier: Apache-2.0
// Encoding, decoding, sending and receiving the messages between a program and its forge.
#include "runtime/forge/protocol.hpp"

#include <cerrno>

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/hash.hpp"

namespace whet::runtime::forge {
namespace {

void put(Writer& w, const HelloMessage& m) {
    w.put(m.version);
    w.put(m.build_id);
    w.put(m.pid);
    w.put(m.isa);
    w.put(m.mxcsr);
    w.put_string(m.directory);
    w.put<uint64_t>(m.environment.size());
    for (const auto& line : m.environment) w.put_string(line);
}

void get(Reader& r, HelloMessage& m) {
    m.version = r.get<uint32_t>();
    m.build_id = r.get<uint64_t>();
    m.pid = r.get<int32_t>();
    m.isa = r.get<jit::Isa>();
    m.mxcsr = r.get<uint32_t>();
    m.directory = r.get_string();
    const auto count = r.get<uint64_t>();
    for (uint64_t i = 0; i < count && r.ok(); ++i) m.environment.push_back(r.get_string());
}

void put(Writer& w, const SiteMessage& m) {
    w.put(m.site);
    w.put(m.family);
    w.put(m.op);
}

void get(Reader& r, SiteMessage& m) {
    m.site = r.get<SiteId>();
    m.family = r.get<SiteId>();
    m.op = r.get<whet_op>();
}

void put(Writer& w, const ProfileMessage& m) {
    w.put<uint64_t>(m.entries.size());
    for (const auto& e : m.entries) {
        w.put(e.site);
        w.put(e.calls);
        w.put(e.total_ns);
        w.put(e.recent_calls_per_s);
    }
}

void get(Reader& r, ProfileMessage& m) {
    const auto count = r.get<uint64_t>();
    for (uint64_t i = 0; i < count && r.ok(); ++i) {
        ProfileEntry e;
        e.site = r.get<SiteId>();
        e.calls = r.get<uint64_t>();
        e.total_ns = r.get<double>();
        e.recent_calls_per_s = r.get<double>();
        m.entries.push_back(e);
    }
}

void put(Writer& w, const VerdictMessage& m) {
    w.put(m.site);
    w.put(m.kind);
    w.put_string(m.schedule);
    w.put(m.ratio);
}

void get(Reader& r, VerdictMessage& m) {
    m.site = r.get<SiteId>();
    m.kind = r.get<VerdictKind>();
    m.schedule = r.get_string();
    m.ratio = r.get<double>();
}

void put(Writer& w, const ControlMessage& m) {
    w.put(m.paused);
    w.put(m.cpu_share);
    w.put(m.seconds_left);
    w.put(m.trials_left);
}

void get(Reader& r, ControlMessage& m) {
    m.paused = r.get<uint8_t>();
    m.cpu_share = r.get<double>();
    m.seconds_left = r.get<double>();
    m.trials_left = r.get<int64_t>();
}

void put(Writer& w, const PlantMessage& m) {
    w.put(m.site);
    w.put(m.is_blob);
    w.put(m.skip_static);
    w.put_bytes(m.content.data(), m.content.size());
}

void get(Reader& r, PlantMessage& m) {
    m.site = r.get<SiteId>();
    m.is_blob = r.get<uint8_t>();
    m.skip_static = r.get<uint8_t>();
    m.content = r.get_bytes();
}

void put(Writer& w, const TextMessage& m) {
    w.put(m.id);
    w.put(m.last);
    w.put_string(m.text);
}

void get(Reader& r, TextMessage& m) {
    m.id = r.get<uint64_t>();
    m.last = r.get<uint8_t>();
    m.text = r.get_string();
}

void put(Writer& w, const ReadyMessage& m) {
    w.put(m.pid);
    w.put(m.in_process);
    w.put_string(m.note);
}

void get(Reader& r, ReadyMessage& m) {
    m.pid = r.get<int32_t>();
    m.in_process = r.get<uint8_t>();
    m.note = r.get_string();
}

void put(Writer& w, const jit::Blob& b) {
    w.put(b.spec);
    w.put_bytes(b.bytes.data(), b.bytes.size());
    w.put(b.entry);
    w.put(b.text_bytes);
}

void get(Reader& r, jit::Blob& b) {
    b.spec = r.get<jit::MicrokernelSpec>();
    b.bytes = r.get_bytes();
    b.entry = r.get<uint32_t>();
    b.text_bytes = r.get<uint32_t>();
}

void put(Writer& w, const OfferMessage& m) {
    w.put(m.site);
    w.put(m.kind);
    w.put_string(m.schedule);
    w.put<uint64_t>(m.blobs.size());
    for (const auto& blob : m.blobs) put(w, blob);
    w.put(m.estimate_ns);
    w.put(m.ratio);
    w.put(m.low);
    w.put(m.high);
    w.put(m.bound_ns);
    w.put(m.served_before);
}

void get(Reader& r, OfferMessage& m) {
    m.site = r.get<SiteId>();
    m.kind = r.get<OfferKind>();
    m.schedule = r.get_string();
    const auto count = r.get<uint64_t>();
    for (uint64_t i = 0; i < count && r.ok(); ++i) get(r, m.blobs.emplace_back());
    m.estimate_ns = r.get<double>();
    m.ratio = r.get<double>();
    m.low = r.get<double>();
    m.high = r.get<double>();
    m.bound_ns = r.get<double>();
    m.served_before = r.get<uint8_t>();
}

void put(Writer& w, const StatusMessage& m) {
    w.put(m.trials);
    w.put(m.compiles);
    w.put(m.trials_without_compile);
    w.put(m.rejected_static);
    w.put(m.rejected_wrong);
    w.put(m.rejected_crashed);
    w.put(m.rejected_slow);
    w.put(m.cpu_seconds);
    w.put(m.build_ms_p50);
    w.put(m.build_ms_p95);
    w.put(m.peak_gflops);
    w.put(m.stream_gbs);
    w.put(m.sites_open);
    w.put(m.sites_settled);
    w.put(m.working_on);
    w.put_string(m.doing);
}

void get(Reader& r, StatusMessage& m) {
    m.trials = r.get<uint64_t>();
    m.compiles = r.get<uint64_t>();
    m.trials_without_compile = r.get<uint64_t>();
    m.rejected_static = r.get<uint64_t>();
    m.rejected_wrong = r.get<uint64_t>();
    m.rejected_crashed = r.get<uint64_t>();
    m.rejected_slow = r.get<uint64_t>();
    m.cpu_seconds = r.get<double>();
    m.build_ms_p50 = r.get<double>();
    m.build_ms_p95 = r.get<double>();
    m.peak_gflops = r.get<double>();
    m.stream_gbs = r.get<double>();
    m.sites_open = r.get<uint32_t>();
    m.sites_settled = r.get<uint32_t>();
    m.working_on = r.get<SiteId>();
    m.doing = r.get_string();
}

void put(Writer& w, const LogMessage& m) {
    w.put(m.level);
    w.put_string(m.text);
}

void get(Reader& r, LogMessage& m) {
    m.level = r.get<uint32_t>();
    m.text = r.get_string();
}

template <typename T>
std::vector<uint8_t> encoded(const T& message) {
    Writer writer;
    put(writer, message);
    return writer.bytes();
}

base::Error peer_error(const char* what, ssize_t result) {
    if (result == 0)
        return base::make_error(base::Code::io_error, "the forge's peer closed its socket");
    return base::make_error(base::Code::io_error, "cannot %s a frame: %s", what,
                            std::strerror(errno));
}

base::Result<void> receive_all(int socket, void* data, size_t size) {
    auto* at = static_cast<uint8_t*>(data);
    while (size > 0) {
        const ssize_t got = ::recv(socket, at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return peer_error("receive", got);
        at += got;
        size -= static_cast<size_t>(got);
    }
    return {};
}

}  // namespace

uint64_t build_id() noexcept {
    uint64_t id = base::hash_text(WHET_VERSION_TEXT);
    for (const uint64_t part : {uint64_t{jit::kGeneratorVersion}, uint64_t{jit::kNumericsVersion},
                                uint64_t{kProtocolVersion}, uint64_t{sizeof(whet_op)},
                                uint64_t{sizeof(jit::MicrokernelSpec)}}) {
        id = base::hash_combine(id, part);
    }
    return id;
}

std::vector<uint8_t> encode(const HelloMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const SiteMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const ProfileMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const VerdictMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const ControlMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const PlantMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const TextMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const ReadyMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const OfferMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const StatusMessage& m) { return encoded(m); }
std::vector<uint8_t> encode(const LogMessage& m) { return encoded(m); }

template <typename T>
base::Result<T> decode(const uint8_t* data, size_t size) {
    Reader reader(data, size);
    T message{};
    get(reader, message);
    if (!reader.ok()) {
        return base::make_error(base::Code::invalid_argument,
                                "got a frame of %zu bytes, expected more", size);
    }
    return message;
}

template base::Result<HelloMessage> decode<HelloMessage>(const uint8_t*, size_t);
template base::Result<SiteMessage> decode<SiteMessage>(const uint8_t*, size_t);
template base::Result<ProfileMessage> decode<ProfileMessage>(const uint8_t*, size_t);
template base::Result<VerdictMessage> decode<VerdictMessage>(const uint8_t*, size_t);
template base::Result<ControlMessage> decode<ControlMessage>(const uint8_t*, size_t);
template base::Result<PlantMessage> decode<PlantMessage>(const uint8_t*, size_t);
template base::Result<TextMessage> decode<TextMessage>(const uint8_t*, size_t);
template base::Result<ReadyMessage> decode<ReadyMessage>(const uint8_t*, size_t);
template base::Result<OfferMessage> decode<OfferMessage>(const uint8_t*, size_t);
template base::Result<StatusMessage> decode<StatusMessage>(const uint8_t*, size_t);
template base::Result<LogMessage> decode<LogMessage>(const uint8_t*, size_t);

base::Result<void> send_frame(int socket, Message type, const std::vector<uint8_t>& payload) {
    if (payload.size() > kMaxFrameBytes) {
        return base::make_error(base::Code::invalid_argument,
                                "got a frame of %zu bytes, expected at most %u", payload.size(),
                                kMaxFrameBytes);
    }
    FrameHeader header{type, static_cast<uint32_t>(payload.size())};
    iovec parts[2] = {{&header, sizeof header},
                      {const_cast<uint8_t*>(payload.data()), payload.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    size_t left = sizeof header + payload.size();
    while (left > 0) {
        const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return peer_error("send", sent);
        left -= static_cast<size_t>(sent);
        auto skip = static_cast<size_t>(sent);
        for (auto& part : parts) {
            const size_t taken = skip < part.iov_len ? skip : part.iov_len;
            part.iov_base = static_cast<uint8_t*>(part.iov_base) + taken;
            part.iov_len -= taken;
            skip -= taken;
        }
    }
    return {};
}

base::Result<Message> receive_frame(int socket, std::vector<uint8_t>& payload) {
    FrameHeader header{};
    WHET_TRY_VOID(receive_all(socket, &header, sizeof header));
    if (header.bytes > kMaxFrameBytes) {
        return base::make_error(base::Code::io_error,
                                "got a frame of %u bytes, expected at most %u", header.bytes,
                                kMaxFrameBytes);
    }
    payload.resize(header.bytes);
    WHET_TRY_VOID(receive_all(socket, payload.data(), payload.size()));
    return header.type;
}

}  // namespace whet::runtime::forge
