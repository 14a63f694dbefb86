// SPDX-License-Identifier: Apache-2.0
// Tests of the store: what is kept, what is refused, and that it never breaks its user.
#include "runtime/store/store.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>

namespace whet::runtime {
namespace {

namespace fs = std::filesystem;

whet_op fake_op(int64_t m) {
    whet_op op{};
    op.size = sizeof(op);
    op.kind = WHET_MATMUL;
    op.operand_count = 3;
    op.alpha = 1;
    op.operands[WHET_DST].extents[0] = m;
    return op;
}

jit::Blob fake_blob(uint8_t rows) {
    jit::Blob blob;
    blob.spec.isa = jit::Isa::avx2;
    blob.spec.rows = rows;
    blob.bytes = {0x90, rows, 0xc3};
    blob.text_bytes = 3;
    return blob;
}

StoredPlan fake_plan(int64_t m, const std::string& schedule) {
    StoredPlan plan;
    plan.op = fake_op(m);
    plan.schedule = schedule;
    plan.time_ns = 123.5;
    plan.kernels = {fake_blob(6).spec.print()};
    return plan;
}

class StoreTest : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/whet_store_test_XXXXXX";
        folder_ = mkdtemp(name);
        path_ = folder_ + "/deep/er/store.db";
    }
    void TearDown() override { fs::remove_all(folder_); }
    std::unique_ptr<Store> open(const std::string& machine = "machine") {
        auto store = Store::open(path_, machine);
        EXPECT_TRUE(store) << store.error().message;
        return store ? std::move(*store) : nullptr;
    }
    std::string folder_, path_;
};

TEST_F(StoreTest, KeepsPlansBlobsQuarantineAndMachine) {
    {
        auto store = open();
        ASSERT_TRUE(store->save(fake_plan(4, "a"), {fake_blob(6)}));
        ASSERT_TRUE(store->save(fake_plan(4, "b"), {fake_blob(6)}));
        ASSERT_TRUE(store->save(fake_plan(5, "c"), {fake_blob(4)}));
        ASSERT_TRUE(store->set_state(fake_op(5), "c", PlanState::adopted));
        ASSERT_TRUE(store->set_state(fake_op(5), "other", PlanState::declined));
        ASSERT_TRUE(store->save_machine({100.5, 12.25}));
        ASSERT_TRUE(store->quarantine({fake_op(4), 0xffffffffffffff01u, "nan"}, "not the row"));
    }
    auto contents = open()->load();
    ASSERT_TRUE(contents);
    ASSERT_EQ(contents->plans.size(), 2u);
    for (const StoredPlan& plan : contents->plans) {
        EXPECT_EQ(plan.schedule, plan.op.operands[0].extents[0] == 4 ? "b" : "c");
        EXPECT_EQ(plan.state, plan.schedule == "c" ? PlanState::adopted : PlanState::offered);
        EXPECT_EQ(plan.time_ns, 123.5);
        ASSERT_EQ(plan.kernels.size(), 1u);
    }
    ASSERT_EQ(contents->blobs.size(), 2u);
    EXPECT_EQ(contents->blobs[0].bytes.size(), 3u);
    ASSERT_EQ(contents->quarantine.size(), 1u);
    EXPECT_EQ(contents->quarantine[0].schedule_hash, 0xffffffffffffff01u);
    EXPECT_EQ(contents->machine.peak_gflops, 100.5);
    EXPECT_EQ(contents->refused_blobs, 0u);
}

TEST_F(StoreTest, QuarantineDropsTheRow) {
    auto store = open();
    ASSERT_TRUE(store->save(fake_plan(4, "a"), {}));
    ASSERT_TRUE(store->quarantine({fake_op(4), 7, "wrong"}, "a"));
    EXPECT_TRUE(store->load()->plans.empty());
}

TEST_F(StoreTest, MachinesDoNotSeeEachOther) {
    ASSERT_TRUE(open("one")->save(fake_plan(4, "a"), {fake_blob(6)}));
    const auto contents = open("two")->load();
    EXPECT_TRUE(contents->plans.empty());
    EXPECT_TRUE(contents->blobs.empty());
}

TEST_F(StoreTest, FilesAreForTheOwnerOnly) {
    open();
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    ASSERT_EQ(stat((path_ + ".key").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    ASSERT_EQ(stat((folder_ + "/deep/er").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(StoreTest, BlobsOfAnotherKeyAreRefused) {
    ASSERT_TRUE(open()->save(fake_plan(4, "a"), {fake_blob(6)}));
    fs::remove(path_ + ".key");
    const auto contents = open()->load();
    ASSERT_TRUE(contents);
    EXPECT_EQ(contents->plans.size(), 1u);
    EXPECT_TRUE(contents->blobs.empty());
    EXPECT_EQ(contents->refused_blobs, 1u);
}

/// A connection that is not the store's.
class Stranger {
public:
    explicit Stranger(const std::string& path) { sqlite3_open(path.c_str(), &database_); }
    ~Stranger() { sqlite3_close(database_); }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    void run(const char* sql) {
        EXPECT_EQ(sqlite3_exec(database_, sql, nullptr, nullptr, nullptr), SQLITE_OK)
            << sql << ": " << sqlite3_errmsg(database_);
    }

    /// The bytes of a column of the only blob; a number's as they lie in memory.
    std::string read(const std::string& column) {
        sqlite3_stmt* row = nullptr;
        sqlite3_prepare_v2(database_, ("SELECT " + column + " FROM blobs").c_str(), -1, &row,
                           nullptr);
        std::string bytes;
        if (sqlite3_step(row) == SQLITE_ROW) {
            is_number_ = sqlite3_column_type(row, 0) == SQLITE_INTEGER;
            const int64_t number = sqlite3_column_int64(row, 0);
            bytes = is_number_ ? std::string(reinterpret_cast<const char*>(&number), sizeof number)
                               : std::string(static_cast<const char*>(sqlite3_column_blob(row, 0)),
                                             static_cast<size_t>(sqlite3_column_bytes(row, 0)));
        }
        sqlite3_finalize(row);
        return bytes;
    }
    void write(const std::string& column, const std::string& bytes) {
        sqlite3_stmt* row = nullptr;
        sqlite3_prepare_v2(database_, ("UPDATE blobs SET " + column + " = ?").c_str(), -1, &row,
                           nullptr);
        if (is_number_) {
            int64_t number = 0;
            std::memcpy(&number, bytes.data(), sizeof number);
            sqlite3_bind_int64(row, 1, number);
        } else {
            sqlite3_bind_blob(row, 1, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC);
        }
        EXPECT_EQ(sqlite3_step(row), SQLITE_DONE) << sqlite3_errmsg(database_);
        sqlite3_finalize(row);
    }

private:
    sqlite3* database_ = nullptr;
    bool is_number_ = false;
};

TEST_F(StoreTest, DamagedRowsAreDroppedOneByOne) {
    {
        auto store = open();
        ASSERT_TRUE(store->save(fake_plan(4, "a"), {fake_blob(6)}));
        ASSERT_TRUE(store->save(fake_plan(5, "b"), {fake_blob(4)}));
        ASSERT_TRUE(store->set_state(fake_op(5), "b", PlanState::adopted));
        ASSERT_TRUE(store->quarantine({fake_op(4), 7, "nan"}, "not the row"));
        ASSERT_TRUE(store->quarantine({fake_op(4), 8, "inf"}, "not the row"));
        ASSERT_TRUE(store->save_machine({100, 12}));
        Stranger stranger(path_);
        stranger.run("UPDATE plans SET time_ns = 5 WHERE schedule = 'a'");
        stranger.run("UPDATE quarantine SET reason = 'none' WHERE schedule_hash = 7");
        stranger.run("UPDATE machines SET peak_gflops = 1");
        stranger.run("UPDATE blobs SET entry = 1 WHERE spec IN (SELECT min(spec) FROM blobs)");
    }
    auto contents = open()->load();
    ASSERT_TRUE(contents) << contents.error().message;
    EXPECT_EQ(contents->damaged_rows, 3u);
    EXPECT_EQ(contents->refused_blobs, 1u);
    EXPECT_EQ(contents->blobs.size(), 1u);
    ASSERT_EQ(contents->plans.size(), 1u);
    EXPECT_EQ(contents->plans[0].schedule, "b");
    EXPECT_EQ(contents->plans[0].state, PlanState::adopted);
    ASSERT_EQ(contents->quarantine.size(), 1u);
    EXPECT_EQ(contents->quarantine[0].schedule_hash, 8u);
    EXPECT_EQ(contents->machine.peak_gflops, 0);
    contents = open()->load();
    ASSERT_TRUE(contents);
    EXPECT_EQ(contents->damaged_rows + contents->refused_blobs, 0u);
}

/// A damaged row does not become whole because its state changes.
TEST_F(StoreTest, DamageIsNotSealed) {
    auto store = open();
    ASSERT_TRUE(store->save(fake_plan(4, "a"), {}));
    Stranger(path_).run("UPDATE plans SET ratio = 9");
    ASSERT_TRUE(store->set_state(fake_op(4), "a", PlanState::adopted));
    const auto contents = store->load();
    ASSERT_TRUE(contents);
    EXPECT_EQ(contents->damaged_rows, 1u);
    EXPECT_TRUE(contents->plans.empty());
}

/// What is executed is refused for any single bit: of the code, its entry, its size, its digest.
TEST_F(StoreTest, EveryBitOfABlobCounts) {
    ASSERT_TRUE(open()->save(fake_plan(4, "a"), {fake_blob(6)}));
    Stranger stranger(path_);
    for (const char* column : {"bytes", "digest", "entry", "text_bytes"}) {
        const std::string whole = stranger.read(column);
        for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
            std::string damaged = whole;
            damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
            stranger.write(column, damaged);
            const auto store = open();
            const StoreContents contents = *store->load();
            EXPECT_TRUE(contents.blobs.empty()) << column << " bit " << bit;
            EXPECT_EQ(contents.refused_blobs, 1u) << column << " bit " << bit;
            ASSERT_TRUE(store->save(fake_plan(4, "a"), {fake_blob(6)}));
        }
    }
    stranger.run("UPDATE blobs SET spec = spec || ' '");
    EXPECT_TRUE(open()->load()->blobs.empty());
}

/// Whatever bits of the file are wrong: what is read is what was written, or nothing.
TEST_F(StoreTest, NoAlteredRowComesBack) {
    constexpr unsigned kSeed = 20261201;
    constexpr int kRounds = 300, kPlans = 12;
    std::mt19937 dice(kSeed);
    std::set<std::string> schedules;
    {
        auto store = open();
        for (int i = 0; i < kPlans; ++i) {
            const std::string schedule = "schedule " + std::to_string(i) + std::string(200, 'x');
            schedules.insert(schedule);
            ASSERT_TRUE(store->save(fake_plan(i + 1, schedule),
                                    {fake_blob(static_cast<uint8_t>(1 + i % 8))}));
        }
        ASSERT_TRUE(store->quarantine({fake_op(99), 7, "nan"}, "none"));
        ASSERT_TRUE(store->save_machine({100, 12}));
    }
    std::ifstream whole_file(path_, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(whole_file), {}};
    ASSERT_GT(whole.size(), 8192u);
    int refused = 0, lost = 0;
    for (int round = 0; round < kRounds; ++round) {
        SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
        std::string damaged = whole;
        const int flips = round % 3 == 0 ? 1 : round % 3 == 1 ? 20 : 400;
        for (int i = 0; i < flips; ++i) {
            const size_t bit = dice() % (8 * damaged.size());
            damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
        }
        for (const char* suffix : {"-wal", "-shm"}) fs::remove(path_ + suffix);
        std::ofstream(path_, std::ios::binary | std::ios::trunc) << damaged;
        auto store = Store::open(path_, "machine");
        if (!store) {
            EXPECT_EQ(store.error().message.find('\n'), std::string::npos);
            ++refused;
            continue;
        }
        const auto contents = (*store)->load();
        if (!contents) {
            EXPECT_EQ(contents.error().message.find('\n'), std::string::npos);
            ++refused;
            continue;
        }
        lost += contents->plans.size() < static_cast<size_t>(kPlans);
        for (const StoredPlan& plan : contents->plans) {
            EXPECT_TRUE(schedules.contains(plan.schedule));
            EXPECT_EQ(plan.time_ns, 123.5);
            EXPECT_EQ(plan.state, PlanState::offered);
        }
        for (const jit::Blob& blob : contents->blobs) {
            const jit::Blob expected = fake_blob(blob.spec.rows);
            EXPECT_EQ(blob.bytes, expected.bytes);
            EXPECT_EQ(blob.entry, expected.entry);
            EXPECT_EQ(blob.spec.print(), expected.spec.print());
        }
        for (const QuarantinedPlan& plan : contents->quarantine) EXPECT_EQ(plan.schedule_hash, 7u);
        EXPECT_TRUE(contents->machine.peak_gflops == 100 || contents->machine.peak_gflops == 0);
    }
    EXPECT_GT(lost, 0) << "rows are judged one by one";
    EXPECT_GT(refused, 0);
}

/// A newer version of the library takes the file over while an older one has it open.
TEST_F(StoreTest, TwoVersionsOnOneFile) {
    auto store = open();
    ASSERT_TRUE(store->save(fake_plan(4, "a"), {fake_blob(6)}));
    Stranger stranger(path_);
    stranger.run("DROP TABLE plans");
    stranger.run("CREATE TABLE plans(another TEXT)");
    stranger.run("PRAGMA user_version = 99");
    const auto saved = store->save(fake_plan(5, "b"), {fake_blob(6)});
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code, base::Code::io_error);
    EXPECT_FALSE(store->load());
    const auto opened = Store::open(path_, "machine");
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message.find("schema 99"), std::string::npos);
    // Other versions of the generator share the file, not the rows.
    stranger.run("PRAGMA user_version = 1");
    ASSERT_TRUE(open("machine generator=1")->save(fake_plan(4, "a"), {fake_blob(6)}));
    ASSERT_TRUE(open("machine generator=2")->save(fake_plan(4, "b"), {fake_blob(6)}));
    EXPECT_EQ(open("machine generator=1")->load()->plans[0].schedule, "a");
    EXPECT_EQ(open("machine generator=2")->load()->plans[0].schedule, "b");
}

TEST_F(StoreTest, AFileThatOthersHoldIsWorthAnotherTry) {
    auto store = open();
    Stranger stranger(path_);
    stranger.run("BEGIN IMMEDIATE");
    const auto held = store->save(fake_plan(4, "a"), {});
    ASSERT_FALSE(held);
    EXPECT_EQ(held.error().code, base::Code::out_of_budget);
    stranger.run("ROLLBACK");
    EXPECT_TRUE(store->save(fake_plan(4, "a"), {}));
}

TEST_F(StoreTest, CorruptUnwritableAndForeignFilesAreErrorsOfOneLine) {
    open();
    std::ofstream(path_, std::ios::trunc) << std::string(4096, 'x');
    auto corrupt = Store::open(path_, "machine");
    ASSERT_FALSE(corrupt);
    EXPECT_EQ(corrupt.error().message.find('\n'), std::string::npos);

    auto folder_in_place = Store::open(folder_, "machine");
    EXPECT_FALSE(folder_in_place);
    auto unwritable = Store::open("/proc/whet/store.db", "machine");
    EXPECT_FALSE(unwritable);
    fs::permissions(path_, fs::perms(0666));
    EXPECT_FALSE(Store::open(path_, "machine"));
    if (geteuid() == 0) {
        fs::permissions(path_, fs::perms(0600));
        ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
        const auto foreign = Store::open(path_, "machine");
        ASSERT_FALSE(foreign);
        EXPECT_NE(foreign.error().message.find("belongs to user 12345"), std::string::npos);
    }
}

/// Others could leave a log beside the store, which SQLite would take for its own.
TEST_F(StoreTest, AFolderThatOthersMayWriteIsRefused) {
    for (const mode_t mode : {0777, 0702}) {
        const std::string folder = folder_ + "/" + std::to_string(mode);
        ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
        ASSERT_EQ(chmod(folder.c_str(), mode), 0);
        const auto store = Store::open(folder + "/store.db", "machine");
        ASSERT_FALSE(store);
        EXPECT_NE(store.error().message.find("is writable for others"), std::string::npos);
        EXPECT_FALSE(fs::exists(folder + "/store.db"));
    }
    // In such as /tmp nobody may take another's files away: only a log of somebody else is refused.
    const std::string shared = folder_ + "/shared", path = shared + "/store.db";
    ASSERT_EQ(mkdir(shared.c_str(), 0700), 0);
    ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
    EXPECT_TRUE(Store::open(path, "machine"));
    EXPECT_TRUE(Store::open(path, "machine"));
    fs::create_symlink("/dev/null", path + "-journal");
    EXPECT_FALSE(Store::open(path, "machine"));
    fs::remove(path + "-journal");
    if (geteuid() != 0) return;
    std::ofstream(path + "-journal").put('x');
    ASSERT_EQ(chown((path + "-journal").c_str(), 12345, 12345), 0);
    const auto with_log = Store::open(path, "machine");
    ASSERT_FALSE(with_log);
    EXPECT_NE(with_log.error().message.find("-journal belongs to user 12345"), std::string::npos);
    const std::string folder = folder_ + "/foreign";
    ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
    ASSERT_EQ(chown(folder.c_str(), 12345, 12345), 0);
    const auto store = Store::open(folder + "/store.db", "machine");
    ASSERT_FALSE(store);
    EXPECT_NE(store.error().message.find("belongs to user 12345"), std::string::npos);
}

TEST_F(StoreTest, LinksAreNotFollowed) {
    open();
    for (const char* suffix : {"", ".key"}) {
        const std::string target = folder_ + "/elsewhere" + suffix;
        fs::rename(path_ + suffix, target);
        fs::create_symlink(target, path_ + suffix);
        EXPECT_FALSE(Store::open(path_, "machine")) << suffix;
        fs::remove(path_ + suffix);
        fs::rename(target, path_ + suffix);
    }
    EXPECT_TRUE(Store::open(path_, "machine"));
}

/// A file that is not there yet is made by whoever comes first; nobody is turned away meanwhile.
TEST_F(StoreTest, ManyProcessesMakeItAtOnce) {
    constexpr int kProcesses = 8, kRounds = 20;
    for (int round = 0; round < kRounds; ++round) {
        path_ = folder_ + "/" + std::to_string(round) + ".db";
        int gate[2];
        ASSERT_EQ(pipe(gate), 0);
        for (int process = 0; process < kProcesses; ++process) {
            if (fork() != 0) continue;
            close(gate[1]);
            char byte;
            while (read(gate[0], &byte, 1) > 0) {
            }
            _exit(Store::open(path_, "machine") ? 0 : 1);
        }
        close(gate[0]);
        close(gate[1]);  // all begin
        for (int process = 0; process < kProcesses; ++process) {
            int status = -1;
            ASSERT_GT(wait(&status), 0);
            EXPECT_EQ(status, 0) << "round " << round;
        }
    }
}

TEST_F(StoreTest, ManyProcessesWriteAtOnce) {
    constexpr int kProcesses = 6, kPlans = 20;
    pid_t children[kProcesses];
    for (int p = 0; p < kProcesses; ++p) {
        children[p] = fork();
        if (children[p] != 0) continue;
        auto store = Store::open(path_, "machine");
        bool good = store.has_value();
        for (int i = 0; good && i < kPlans; ++i) {
            good = (*store)->save(fake_plan(p * kPlans + i, "s"), {fake_blob(6)}).has_value();
        }
        _exit(good ? 0 : 1);
    }
    for (const pid_t child : children) {
        int status = 1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    const auto contents = open()->load();
    EXPECT_EQ(contents->plans.size(), static_cast<size_t>(kProcesses * kPlans));
    EXPECT_EQ(contents->refused_blobs, 0u);
}

}  // namespace
}  // namespace whet::runtime
