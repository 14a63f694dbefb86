// SPDX-License-Identifier: Apache-2.0
// The store: schedules, blobs, timings and verdicts of earlier runs, in one SQLite file shared by
// many processes.
#include "runtime/store/store.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/hash.hpp"
#include "base/host.hpp"
#include "base/threads.hpp"
#include "jit/cpu/compiler.hpp"

namespace whet::runtime {
namespace {

using base::Code;
using base::make_error;

constexpr int kSchemaVersion = 2;
constexpr int kOpenTimeoutMs = 20'000;  ///< another process makes the file, or recovers its log
constexpr int kBusyTimeoutMs = 2000;    ///< a writer holds the file for about a millisecond
// Every row but a blob has a checksum over its columns, so that a damaged one is told from a whole
// one; blobs have a keyed hash, for they are executed.
constexpr const char kSchema[] = R"(
DROP TABLE IF EXISTS plans; DROP TABLE IF EXISTS blobs;
DROP TABLE IF EXISTS quarantine; DROP TABLE IF EXISTS machines;
CREATE TABLE plans(
    machine TEXT NOT NULL, op BLOB NOT NULL, schedule TEXT NOT NULL, state INTEGER NOT NULL, time_ns REAL NOT NULL,
    ratio REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, bound_ns REAL NOT NULL, trials INTEGER NOT NULL,
    conditions TEXT NOT NULL, kernels TEXT NOT NULL, checksum INTEGER, saved_at INTEGER NOT NULL DEFAULT (unixepoch()),
    PRIMARY KEY(machine, op)) WITHOUT ROWID;
CREATE TABLE blobs(
    machine TEXT NOT NULL, spec TEXT NOT NULL, entry INTEGER NOT NULL, text_bytes INTEGER NOT NULL, bytes BLOB NOT NULL,
    digest BLOB NOT NULL, PRIMARY KEY(machine, spec)) WITHOUT ROWID;
CREATE TABLE quarantine(
    machine TEXT NOT NULL, op BLOB NOT NULL, schedule_hash INTEGER NOT NULL, reason TEXT NOT NULL, checksum INTEGER,
    PRIMARY KEY(machine, op, schedule_hash)) WITHOUT ROWID;
CREATE TABLE machines(machine TEXT PRIMARY KEY, peak_gflops REAL NOT NULL, stream_gbs REAL NOT NULL, checksum INTEGER);
)";

/// A table whose rows carry a checksum, and the SQL that computes it.
struct Sealed {
    const char* table;
    const char* checksum;
};
constexpr Sealed kPlans = {
    "plans",
    "whet_checksum(machine, op, schedule, state, time_ns, ratio, low, high, bound_ns, trials, "
    "conditions, kernels)"};
constexpr Sealed kQuarantine = {"quarantine", "whet_checksum(machine, op, schedule_hash, reason)"};
constexpr Sealed kMachines = {"machines", "whet_checksum(machine, peak_gflops, stream_gbs)"};

/// The SQL function: a hash over the types and bytes of its arguments.
void whet_checksum(sqlite3_context* context, int count, sqlite3_value** values) {
    uint64_t hash = 0;
    for (int i = 0; i < count; ++i) {
        const int type = sqlite3_value_type(values[i]);
        hash = base::hash_combine(hash, static_cast<uint64_t>(type));
        if (type == SQLITE_FLOAT) {
            const double value = sqlite3_value_double(values[i]);
            hash = base::hash_bytes(&value, sizeof(value), hash);
        } else if (type == SQLITE_INTEGER) {
            hash = base::hash_combine(hash, static_cast<uint64_t>(sqlite3_value_int64(values[i])));
        } else {
            const void* const bytes = sqlite3_value_blob(values[i]);
            hash = base::hash_bytes(bytes, static_cast<size_t>(sqlite3_value_bytes(values[i])),
                                    hash);
        }
    }
    sqlite3_result_int64(context, static_cast<sqlite3_int64>(hash));
}

/// SQLite's message, which may quote a damaged file, as one line of plain characters.
std::string message_of(sqlite3* database) {
    std::string text = sqlite3_errmsg(database);
    for (char& character : text) {
        if (character < 0x20 || character > 0x7e) character = '?';
    }
    return text;
}

/// What SQLite has to say; out_of_budget: others hold the file.
base::Error error_of(sqlite3* database) {
    const int status = sqlite3_errcode(database) & 0xff;
    const bool busy = status == SQLITE_BUSY || status == SQLITE_LOCKED;
    const bool broken = status == SQLITE_CORRUPT || status == SQLITE_NOTADB;
    const char* const path = sqlite3_db_filename(database, "main");
    return make_error(busy ? Code::out_of_budget : Code::io_error, "store %s: %s%s",
                      path ? path : "", message_of(database).c_str(),
                      broken ? " (remove it to begin anew)" : "");
}

/// A prepared statement that finalizes itself; values are bound in order.
class Statement {
public:
    Statement(sqlite3* database, const char* sql) : database_(database) {
        status_ = sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
    }
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement&) = delete;
    Statement& operator=(const Statement&) = delete;

    Statement& text(std::string_view value) {
        return note(sqlite3_bind_text64(statement_, ++bound_, value.data(), value.size(),
                                        SQLITE_TRANSIENT, SQLITE_UTF8));
    }
    Statement& blob(const void* data, size_t bytes) {
        return note(sqlite3_bind_blob64(statement_, ++bound_, data, bytes, SQLITE_TRANSIENT));
    }
    Statement& integer(int64_t value) {
        return note(sqlite3_bind_int64(statement_, ++bound_, value));
    }
    Statement& real(double value) { return note(sqlite3_bind_double(statement_, ++bound_, value)); }

    /// True while there is a row; false at the end or on an error (then failed()).
    bool step() {
        if (status_ != SQLITE_OK && status_ != SQLITE_ROW) return false;
        status_ = sqlite3_step(statement_);
        return status_ == SQLITE_ROW;
    }
    bool failed() const {
        return status_ != SQLITE_OK && status_ != SQLITE_ROW && status_ != SQLITE_DONE;
    }
    base::Result<void> run() {
        while (step()) {
        }
        if (failed()) return error_of(database_);
        return {};
    }

    int64_t column_integer(int column) { return sqlite3_column_int64(statement_, column); }
    double column_real(int column) { return sqlite3_column_double(statement_, column); }
    std::string_view column_bytes(int column) {
        const void* data = sqlite3_column_blob(statement_, column);
        return {static_cast<const char*>(data),
                static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
    }

private:
    Statement& note(int status) {
        if (status != SQLITE_OK) status_ = status;
        return *this;
    }
    sqlite3* database_;
    sqlite3_stmt* statement_ = nullptr;
    int status_ = SQLITE_OK;
    int bound_ = 0;
};

base::Result<void> make_folder(const std::string& path) {
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos || slash == 0) return {};
    const std::string folder = path.substr(0, slash);
    struct stat status{};
    if (stat(folder.c_str(), &status) != 0) {
        WHET_TRY_VOID(make_folder(folder));
        if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
            return make_error(Code::io_error, "cannot make folder %s: %s", folder.c_str(),
                              std::strerror(errno));
        }
    }
    return {};
}

/// Refuses a folder in which others may put files, as SQLite would take a log that they leave beside
/// the store for its own. Where nobody may take another's files away (/tmp), no such log may lie
/// there; one that comes later finds the store open.
base::Result<void> check_folder(const std::string& path) {
    const size_t slash = path.find_last_of('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    struct stat status{};
    if (stat(folder.c_str(), &status) != 0)
        return make_error(Code::io_error, "cannot look at folder %s: %s", folder.c_str(),
                          std::strerror(errno));
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return make_error(Code::io_error, "folder %s belongs to user %u, expected %u",
                          folder.c_str(), status.st_uid, geteuid());
    const bool by_group = (status.st_mode & S_IWGRP) != 0 && status.st_gid != getegid();
    if ((status.st_mode & S_IWOTH) == 0 && !by_group) return {};
    if ((status.st_mode & S_ISVTX) == 0)
        return make_error(Code::io_error, "folder %s is writable for others, expected mode 0700",
                          folder.c_str());
    for (const char* const suffix : {"-wal", "-shm", "-journal"}) {
        struct stat log{};
        if (lstat((path + suffix).c_str(), &log) == 0 &&
            (log.st_uid != geteuid() || !S_ISREG(log.st_mode)))
            return make_error(Code::io_error, "%s%s belongs to user %u, expected a file of %u",
                              path.c_str(), suffix, log.st_uid, geteuid());
    }
    return {};
}

/// Opens (and makes, 0600) a file that only we may write.
base::Result<base::UniqueFd> open_own_file(const std::string& path) {
    base::UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file)
        return make_error(Code::io_error, "cannot open %s: %s", path.c_str(), std::strerror(errno));
    struct stat status{};
    if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return make_error(Code::io_error, "%s is not a regular file", path.c_str());
    }
    if (status.st_uid != geteuid()) {
        return make_error(Code::io_error, "%s belongs to user %u, expected %u", path.c_str(),
                          status.st_uid, geteuid());
    }
    if ((status.st_mode & 022) != 0) {
        return make_error(Code::io_error, "%s is writable for others, expected mode 0600",
                          path.c_str());
    }
    return file;
}

/// The key's file, locked as long as this lives: one process at a time opens a store. Unlocked
/// explicitly, for a child that the program forked meanwhile has the descriptor too.
class KeyFile {
public:
    static base::Result<KeyFile> lock(const std::string& key_path) {
        WHET_TRY(base::UniqueFd file, open_own_file(key_path));
        constexpr int kPauseMs = 5;
        for (int waited_ms = 0; flock(file.get(), LOCK_EX | LOCK_NB) != 0; waited_ms += kPauseMs) {
            if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= kOpenTimeoutMs)
                return make_error(Code::io_error, "cannot lock %s: %s", key_path.c_str(),
                                  std::strerror(errno));
            usleep(kPauseMs * 1000);
        }
        return KeyFile(std::move(file));
    }
    KeyFile(KeyFile&&) = default;
    ~KeyFile() {
        if (file_) flock(file_.get(), LOCK_UN);
    }
    int get() const { return file_.get(); }

private:
    explicit KeyFile(base::UniqueFd file) : file_(std::move(file)) {}
    base::UniqueFd file_;
};

/// The key of the blobs' hashes: made once, kept beside the store, so that a copied store holds
/// only hints.
base::Result<std::string> load_key(const KeyFile& file, const std::string& key_path) {
    std::string key(sizeof(base::HashKey), '\0');
    const ssize_t got = pread(file.get(), key.data(), key.size(), 0);
    if (got == static_cast<ssize_t>(key.size())) return key;
    if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
        return make_error(Code::io_error, "no random bytes for %s", key_path.c_str());
    }
    if (pwrite(file.get(), key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
        return make_error(Code::io_error, "cannot write %s: %s", key_path.c_str(),
                          std::strerror(errno));
    }
    return key;
}

std::string join_lines(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

std::vector<std::string> split_lines(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return lines;
}

bool read_op(std::string_view bytes, whet_op* op) {
    if (bytes.size() != sizeof(whet_op)) return false;
    std::memcpy(op, bytes.data(), sizeof(whet_op));
    return op->size == sizeof(whet_op);
}

}  // namespace

std::string machine_key(jit::Isa isa) {
    const base::Host host = base::describe_host();
    return host.cpu + " l1=" + std::to_string(host.caches.l1_data_bytes) +
           " l2=" + std::to_string(host.caches.l2_bytes) +
           " l3=" + std::to_string(host.caches.last_level_bytes) + " isa=" + jit::isa_name(isa) +
           " generator=" + std::to_string(jit::kGeneratorVersion) +
           " numerics=" + std::to_string(jit::kNumericsVersion);
}

Store::Store(sqlite3* database, std::string machine_key, std::string blob_key)
    : database_(database),
      machine_key_(std::move(machine_key)),
      blobs_key_(machine_key_ + " build=" + std::string(jit::cpu::generator_identity())),
      blob_key_(std::move(blob_key)) {}

Store::~Store() { sqlite3_close(database_); }

base::Result<void> Store::execute(const char* statements) const {
    if (sqlite3_exec(database_, statements, nullptr, nullptr, nullptr) != SQLITE_OK)
        return error_of(database_);
    return {};
}

template <typename Change>
base::Result<void> Store::transaction(const Change& change) {
    WHET_TRY_VOID(execute("BEGIN IMMEDIATE"));
    base::Result<void> result = change();
    if (result) result = execute("COMMIT");
    if (!result) {
        const auto ignored = execute("ROLLBACK");
        (void)ignored;
    }
    return result;
}

base::Result<std::unique_ptr<Store>> Store::open(const std::string& path,
                                                 const std::string& machine_key) {
    WHET_TRY_VOID(make_folder(path));
    WHET_TRY_VOID(check_folder(path));
    {
        WHET_TRY(const base::UniqueFd file, open_own_file(path));
    }
    // Held to the end: who changes a new file's journal mode must be alone with it, and SQLite's
    // own time-out does not cover that.
    const std::string key_path = path + ".key";
    WHET_TRY(const KeyFile key_file, KeyFile::lock(key_path));
    WHET_TRY(std::string key, load_key(key_file, key_path));

    sqlite3* database = nullptr;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    const int opened = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
    std::unique_ptr<Store> store(new Store(database, machine_key, std::move(key)));
    if (opened != SQLITE_OK) {
        return make_error(Code::io_error, "cannot open %s: %s", path.c_str(),
                          message_of(database).c_str());
    }
    sqlite3_busy_timeout(database, kOpenTimeoutMs);
    if (sqlite3_create_function_v2(database, "whet_checksum", -1,
                                   SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr, whet_checksum,
                                   nullptr, nullptr, nullptr) != SQLITE_OK) {
        return error_of(database);
    }

    int64_t version = 0;
    {
        Statement statement(database, "PRAGMA user_version");
        if (statement.step()) version = statement.column_integer(0);
        if (statement.failed()) return error_of(database);
    }
    if (version > kSchemaVersion) {
        return make_error(Code::io_error, "%s has schema %lld, expected at most %d", path.c_str(),
                          static_cast<long long>(version), kSchemaVersion);
    }
    // With WAL, a power cut may lose the last rows but never damages the file.
    WHET_TRY_VOID(store->execute("PRAGMA synchronous=NORMAL"));
    if (version != kSchemaVersion) {
        WHET_TRY_VOID(store->execute("PRAGMA journal_mode=WAL; BEGIN IMMEDIATE;"));
        WHET_TRY_VOID(store->execute(kSchema));
        const std::string done =
            "PRAGMA user_version=" + std::to_string(kSchemaVersion) + "; COMMIT";
        WHET_TRY_VOID(store->execute(done.c_str()));
    }
    sqlite3_busy_timeout(database, kBusyTimeoutMs);
    return store;
}

std::string Store::digest_of(const jit::Blob& blob) const {
    // The words before the code say what the hash vouches for.
    std::string text = "checked " + machine_key_ + " " + blob.spec.print() + " " +
                       std::to_string(blob.entry) + " " + std::to_string(blob.text_bytes) + "\n";
    text.append(reinterpret_cast<const char*>(blob.bytes.data()), blob.bytes.size());
    base::HashKey key;
    std::memcpy(key.data(), blob_key_.data(), key.size());
    const base::Digest digest = base::keyed_hash128(key, text.data(), text.size());
    return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

/// Damaged rows go, where the file can be written: what they held is found again, and nobody
/// complains of them again.
base::Result<size_t> Store::drop_damaged() {
    size_t dropped = 0;
    for (const Sealed& sealed : {kPlans, kQuarantine, kMachines}) {
        const std::string damaged =
            std::string(" FROM ") + sealed.table + " WHERE checksum IS NOT " + sealed.checksum;
        Statement count(database_, ("SELECT count(*)" + damaged).c_str());
        const int64_t found = count.step() ? count.column_integer(0) : 0;
        if (count.failed()) return error_of(database_);
        if (found == 0) continue;
        dropped += static_cast<size_t>(found);
        Statement drop(database_, ("DELETE" + damaged).c_str());
        const auto ignored = drop.run();
        (void)ignored;
    }
    return dropped;
}

base::Result<void> Store::load_plans(StoreContents& contents) const {
    Statement rows(database_, (std::string("SELECT op, schedule, state, time_ns, ratio, low, high, "
                                           "bound_ns, trials, conditions, kernels FROM plans "
                                           "WHERE machine = ? AND checksum = ") +
                               kPlans.checksum)
                                  .c_str());
    rows.text(machine_key_);
    while (rows.step()) {
        StoredPlan plan;
        if (!read_op(rows.column_bytes(0), &plan.op)) continue;  // of another layout
        plan.schedule = rows.column_bytes(1);
        plan.state = static_cast<PlanState>(rows.column_integer(2));
        plan.time_ns = rows.column_real(3);
        plan.ratio = rows.column_real(4);
        plan.low = rows.column_real(5);
        plan.high = rows.column_real(6);
        plan.bound_ns = rows.column_real(7);
        plan.trials = rows.column_integer(8);
        plan.conditions = rows.column_bytes(9);
        plan.kernels = split_lines(rows.column_bytes(10));
        contents.plans.push_back(std::move(plan));
    }
    if (rows.failed()) return error_of(database_);
    return {};
}

base::Result<void> Store::load_blobs(StoreContents& contents) {
    std::vector<std::string> refused;
    {
        Statement rows(
            database_,
            "SELECT spec, entry, text_bytes, bytes, digest FROM blobs WHERE machine = ?");
        rows.text(blobs_key_);
        while (rows.step()) {
            jit::Blob blob;
            auto spec = jit::MicrokernelSpec::parse(rows.column_bytes(0));
            if (spec) blob.spec = *spec;
            const int64_t entry = rows.column_integer(1), text_bytes = rows.column_integer(2);
            blob.entry = static_cast<uint32_t>(entry);
            blob.text_bytes = static_cast<uint32_t>(text_bytes);
            const std::string_view bytes = rows.column_bytes(3);
            blob.bytes.assign(bytes.begin(), bytes.end());
            if (spec && entry == blob.entry && text_bytes == blob.text_bytes &&
                digest_of(blob) == rows.column_bytes(4))
                contents.blobs.push_back(std::move(blob));
            else
                refused.emplace_back(rows.column_bytes(0));
        }
        if (rows.failed()) return error_of(database_);
    }
    contents.refused_blobs = refused.size();
    for (const std::string& spec : refused) {
        Statement drop(database_, "DELETE FROM blobs WHERE machine = ? AND spec = ?");
        drop.text(blobs_key_).text(spec);
        const auto ignored = drop.run();
        (void)ignored;
    }
    return {};
}

base::Result<StoreContents> Store::load() {
    StoreContents contents;
    WHET_TRY(contents.damaged_rows, drop_damaged());
    WHET_TRY_VOID(load_plans(contents));
    WHET_TRY_VOID(load_blobs(contents));
    {
        Statement rows(database_, (std::string("SELECT op, schedule_hash, reason FROM quarantine "
                                               "WHERE machine = ? AND checksum = ") +
                                   kQuarantine.checksum)
                                      .c_str());
        rows.text(machine_key_);
        while (rows.step()) {
            QuarantinedPlan plan;
            if (!read_op(rows.column_bytes(0), &plan.op)) continue;
            plan.schedule_hash = static_cast<uint64_t>(rows.column_integer(1));
            plan.reason = rows.column_bytes(2);
            contents.quarantine.push_back(std::move(plan));
        }
        if (rows.failed()) return error_of(database_);
    }
    Statement rows(database_, (std::string("SELECT peak_gflops, stream_gbs FROM machines "
                                           "WHERE machine = ? AND checksum = ") +
                               kMachines.checksum)
                                  .c_str());
    rows.text(machine_key_);
    if (rows.step()) contents.machine = {rows.column_real(0), rows.column_real(1)};
    if (rows.failed()) return error_of(database_);
    return contents;
}

base::Result<void> Store::seal_plan(const whet_op& op) {
    Statement seal(database_, (std::string("UPDATE plans SET checksum = ") + kPlans.checksum +
                               " WHERE machine = ? AND op = ?")
                                  .c_str());
    seal.text(machine_key_).blob(&op, sizeof(op));
    return seal.run();
}

base::Result<void> Store::save(const StoredPlan& plan, const std::vector<jit::Blob>& blobs) {
    return transaction([&]() -> base::Result<void> {
        Statement row(
            database_,
            "INSERT OR REPLACE INTO plans(machine, op, schedule, state, time_ns, ratio, low, high, "
            "bound_ns, trials, conditions, kernels) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)");
        row.text(machine_key_)
            .blob(&plan.op, sizeof(plan.op))
            .text(plan.schedule)
            .integer(static_cast<int64_t>(plan.state))
            .real(plan.time_ns)
            .real(plan.ratio)
            .real(plan.low)
            .real(plan.high)
            .real(plan.bound_ns)
            .integer(plan.trials)
            .text(plan.conditions)
            .text(join_lines(plan.kernels));
        WHET_TRY_VOID(row.run());
        WHET_TRY_VOID(seal_plan(plan.op));
        for (const jit::Blob& blob : blobs) {
            const std::string digest = digest_of(blob);
            Statement insert(
                database_,
                "INSERT OR REPLACE INTO blobs(machine, spec, entry, text_bytes, bytes, digest) "
                "VALUES(?,?,?,?,?,?)");
            insert.text(blobs_key_)
                .text(blob.spec.print())
                .integer(blob.entry)
                .integer(blob.text_bytes)
                .blob(blob.bytes.data(), blob.bytes.size())
                .blob(digest.data(), digest.size());
            WHET_TRY_VOID(insert.run());
        }
        return {};
    });
}

base::Result<void> Store::set_state(const whet_op& op, const std::string& schedule,
                                    PlanState state) {
    return transaction([&]() -> base::Result<void> {
        Statement row(database_,
                      (std::string("UPDATE plans SET state = ? WHERE machine = ? AND op = ? AND "
                                   "schedule = ? AND checksum = ") +
                       kPlans.checksum)
                          .c_str());
        row.integer(static_cast<int64_t>(state))
            .text(machine_key_)
            .blob(&op, sizeof(op))
            .text(schedule);
        WHET_TRY_VOID(row.run());
        return sqlite3_changes(database_) > 0 ? seal_plan(op) : base::Result<void>{};
    });
}

base::Result<void> Store::quarantine(const QuarantinedPlan& plan, const std::string& schedule) {
    return transaction([&]() -> base::Result<void> {
        Statement row(database_,
                      "INSERT OR REPLACE INTO quarantine(machine, op, schedule_hash, reason) "
                      "VALUES(?,?,?,?)");
        row.text(machine_key_)
            .blob(&plan.op, sizeof(plan.op))
            .integer(static_cast<int64_t>(plan.schedule_hash))
            .text(plan.reason);
        WHET_TRY_VOID(row.run());
        Statement seal(database_,
                       (std::string("UPDATE quarantine SET checksum = ") + kQuarantine.checksum +
                        " WHERE machine = ? AND op = ? AND schedule_hash = ?")
                           .c_str());
        seal.text(machine_key_)
            .blob(&plan.op, sizeof(plan.op))
            .integer(static_cast<int64_t>(plan.schedule_hash));
        WHET_TRY_VOID(seal.run());
        Statement drop(database_,
                       "DELETE FROM plans WHERE machine = ? AND op = ? AND schedule = ?");
        drop.text(machine_key_).blob(&plan.op, sizeof(plan.op)).text(schedule);
        return drop.run();
    });
}

base::Result<void> Store::save_machine(const MachineRecord& record) {
    return transaction([&]() -> base::Result<void> {
        Statement row(
            database_,
            "INSERT OR REPLACE INTO machines(machine, peak_gflops, stream_gbs) VALUES(?,?,?)");
        row.text(machine_key_).real(record.peak_gflops).real(record.stream_gbs);
        WHET_TRY_VOID(row.run());
        Statement seal(database_, (std::string("UPDATE machines SET checksum = ") +
                                   kMachines.checksum + " WHERE machine = ?")
                                      .c_str());
        seal.text(machine_key_);
        return seal.run();
    });
}

}  // namespace whet::runtime
