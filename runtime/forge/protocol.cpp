// SPDX-License-Identifier: Apache-2.0
// Encoding, decoding, sending and receiving the messages between a program and its forge.
#include "runtime/forge/protocol.hpp"

#include <cerrno>
#include <type_traits>

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/hash.hpp"

extern "C" const char whet_ends_identity[17];  // whet_add_identity

namespace whet::runtime::forge {
namespace {

/// The fields of a message in their order on the wire, for both directions: M is T or const T.
template <typename M, typename T>
concept Is = std::is_same_v<std::remove_const_t<M>, T>;

void fields(Is<HelloMessage> auto& m, auto&& use) {
    use(m.version, m.build_id, m.pid, m.isa, m.mxcsr, m.directory, m.environment);
}
void fields(Is<SiteMessage> auto& m, auto&& use) { use(m.site, m.family, m.op); }
void fields(Is<ProfileEntry> auto& m, auto&& use) {
    use(m.site, m.calls, m.total_ns, m.recent_calls_per_s);
}
void fields(Is<ProfileMessage> auto& m, auto&& use) { use(m.entries); }
void fields(Is<VerdictMessage> auto& m, auto&& use) { use(m.site, m.kind, m.schedule, m.ratio); }
void fields(Is<ControlMessage> auto& m, auto&& use) {
    use(m.paused, m.cpu_share, m.seconds_left, m.trials_left);
}
void fields(Is<PlantMessage> auto& m, auto&& use) {
    use(m.site, m.is_blob, m.skip_static, m.content);
}
void fields(Is<TextMessage> auto& m, auto&& use) { use(m.id, m.last, m.text); }
void fields(Is<ReadyMessage> auto& m, auto&& use) { use(m.pid, m.in_process, m.note); }
void fields(Is<jit::Blob> auto& m, auto&& use) { use(m.spec, m.bytes, m.entry, m.text_bytes); }
void fields(Is<OfferMessage> auto& m, auto&& use) {
    use(m.site, m.kind, m.schedule, m.blobs, m.estimate_ns, m.ratio, m.low, m.high, m.bound_ns,
        m.served_before, m.ahead, m.op);
}
void fields(Is<StatusMessage> auto& m, auto&& use) {
    use(m.trials, m.compiles, m.trials_without_compile, m.rejected_static, m.rejected_wrong,
        m.rejected_crashed, m.rejected_slow, m.cpu_seconds, m.build_ms_p50, m.build_ms_p95,
        m.peak_gflops, m.stream_gbs, m.sites_open, m.sites_settled, m.working_on, m.doing);
}
void fields(Is<LogMessage> auto& m, auto&& use) { use(m.level, m.text); }

/// Structures that go field by field, lest their padding is sent.
template <typename T>
constexpr bool kHasFields = std::is_same_v<T, ProfileEntry> || std::is_same_v<T, jit::Blob>;
template <typename T>
constexpr bool kIsVector = false;
template <typename T>
constexpr bool kIsVector<std::vector<T>> = true;

template <typename T>
void put(Writer& w, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
        w.put_string(value);
    } else if constexpr (std::is_same_v<T, std::vector<uint8_t>>) {
        w.put_bytes(value.data(), value.size());
    } else if constexpr (kIsVector<T>) {
        w.put<uint64_t>(value.size());
        for (const auto& one : value) put(w, one);
    } else if constexpr (kHasFields<T>) {
        fields(value, [&w](const auto&... field) { (put(w, field), ...); });
    } else {
        w.put(value);
    }
}

template <typename T>
void get(Reader& r, T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
        value = r.get_string();
    } else if constexpr (std::is_same_v<T, std::vector<uint8_t>>) {
        value = r.get_bytes();
    } else if constexpr (kIsVector<T>) {
        const auto count = r.get<uint64_t>();
        for (uint64_t i = 0; i < count && r.ok(); ++i) get(r, value.emplace_back());
    } else if constexpr (kHasFields<T>) {
        fields(value, [&r](auto&... field) { (get(r, field), ...); });
    } else {
        value = r.get<T>();
    }
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
    return base::hash_combine(base::hash_text(WHET_VERSION_TEXT),
                              base::hash_text(whet_ends_identity));
}

std::string why_refused(const std::vector<uint8_t>& hello) {
    Reader reader(hello.data(), hello.size());
    const auto version = reader.get<uint32_t>();
    const auto build = reader.get<uint64_t>();
    if (reader.ok() && version == kProtocolVersion && build == build_id()) return "";
    return base::make_error(base::Code::invalid_argument,
                            "got a program of protocol %u, build %016llx, expected protocol %u, "
                            "build %016llx: install the libraries of one build",
                            version, static_cast<unsigned long long>(build), kProtocolVersion,
                            static_cast<unsigned long long>(build_id()))
        .message;
}

template <typename T>
std::vector<uint8_t> Codec<T>::encode(const T& message) {
    Writer writer;
    fields(message, [&writer](const auto&... field) { (put(writer, field), ...); });
    return writer.bytes();
}

template <typename T>
base::Result<T> Codec<T>::decode(const uint8_t* data, size_t size) {
    Reader reader(data, size);
    T message{};
    fields(message, [&reader](auto&... field) { (get(reader, field), ...); });
    if (!reader.ok()) {
        return base::make_error(base::Code::invalid_argument,
                                "got a frame of %zu bytes, expected more", size);
    }
    return message;
}

template struct Codec<HelloMessage>;
template struct Codec<SiteMessage>;
template struct Codec<ProfileMessage>;
template struct Codec<VerdictMessage>;
template struct Codec<ControlMessage>;
template struct Codec<PlantMessage>;
template struct Codec<TextMessage>;
template struct Codec<ReadyMessage>;
template struct Codec<OfferMessage>;
template struct Codec<StatusMessage>;
template struct Codec<LogMessage>;

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
