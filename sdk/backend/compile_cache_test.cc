// Tests the files of the compile cache: what is found, what is refused, what is removed, and several processes.
#include "sdk/backend/compile_cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kNoLimit = int64_t{1} << 40;

class CompileCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "compile_cache.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::shared_ptr<CompileCache> Open(int64_t limit = kNoLimit) {
    absl::StatusOr<std::shared_ptr<CompileCache>> cache = CompileCache::Open(folder_ + "/cache", limit);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *cache;
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ + "/cache")) files.push_back(entry.path());
    return files;
  }
  static std::string Read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  static void Write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string folder_;
};

TEST_F(CompileCacheTest, FindsWhatWasInsertedByKey) {
  const auto cache = Open();
  const std::string binary("a\0b\xff", 4);
  EXPECT_EQ(cache->Find("k"), std::nullopt);
  ASSERT_TRUE(cache->Insert("k", binary).ok());
  ASSERT_TRUE(cache->Insert("empty", "").ok());
  EXPECT_EQ(cache->Find("k"), binary);
  EXPECT_EQ(cache->Find("empty"), "");
  EXPECT_EQ(cache->Find("K"), std::nullopt);
  EXPECT_EQ(Open()->Find("k"), binary) << "of a second object for the same folder";
  ASSERT_TRUE(cache->Insert("k", "other").ok());
  EXPECT_EQ(cache->Find("k"), "other");
  cache->Remove("k");
  EXPECT_EQ(cache->Find("k"), std::nullopt);
  EXPECT_EQ(cache->Find("empty"), "");
}

TEST_F(CompileCacheTest, OnlyTheOwnerCanUseTheFolder) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Insert("k", "bytes").ok());
  EXPECT_EQ(fs::status(cache->folder()).permissions(), fs::perms::owner_all);
  ASSERT_EQ(Files().size(), 1u);
  EXPECT_EQ(fs::status(Files()[0]).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// Each byte of an entry counts: a change of any is found, and the entry is removed.
TEST_F(CompileCacheTest, DamagedEntriesAreAbsent) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Insert("key", "some bytes").ok());
  ASSERT_EQ(Files().size(), 1u);
  const fs::path path = Files()[0];
  const std::string good = Read(path);
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char bit : {'\x01', '\x80'}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ bit);
      Write(path, bad);
      EXPECT_EQ(cache->Find("key"), std::nullopt) << "byte " << i;
      EXPECT_FALSE(fs::exists(path)) << "byte " << i;
    }
    Write(path, good.substr(0, i));
    EXPECT_EQ(cache->Find("key"), std::nullopt) << "cut to " << i;
  }
  Write(path, good + "x");
  EXPECT_EQ(cache->Find("key"), std::nullopt);
  Write(path, good);
  EXPECT_EQ(cache->Find("key"), "some bytes");
}

// Another key whose digest is the same must not be answered.
TEST_F(CompileCacheTest, TheWholeKeyIsCompared) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Insert("one", "1").ok());
  const fs::path one = Files()[0];
  ASSERT_TRUE(cache->Insert("two", "2").ok());
  for (const fs::path& path : Files()) {
    if (path != one) fs::copy_file(one, path, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(cache->Find("two"), std::nullopt);
  EXPECT_EQ(cache->Find("one"), "1");
}

TEST_F(CompileCacheTest, TheLeastRecentlyUsedEntriesAreRemoved) {
  const std::string bytes(1000, 'x');
  const auto cache = Open(3500);  // three entries with their headers
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 3; ++i) {
    const std::vector<fs::path> before = Files();
    ASSERT_TRUE(cache->Insert(absl::StrCat("key", i), bytes).ok());
    for (const fs::path& path : Files()) {
      if (std::find(before.begin(), before.end(), path) == before.end())
        fs::last_write_time(path, now - std::chrono::minutes(30 - i));
    }
  }
  EXPECT_EQ(Files().size(), 3u);
  EXPECT_EQ(cache->Find("key0"), bytes);  // now key1 is the oldest
  ASSERT_TRUE(cache->Insert("key3", bytes).ok());
  EXPECT_EQ(cache->Find("key1"), std::nullopt);
  EXPECT_EQ(cache->Find("key0"), bytes);
  EXPECT_EQ(cache->Find("key2"), bytes);
  EXPECT_EQ(cache->Find("key3"), bytes);
}

TEST_F(CompileCacheTest, WhatExceedsTheLimitIsNotStored) {
  const auto cache = Open(100);
  ASSERT_TRUE(cache->Insert("small", "").ok());
  ASSERT_TRUE(cache->Insert("large", std::string(100, 'x')).ok());
  EXPECT_EQ(cache->Find("large"), std::nullopt);
  EXPECT_EQ(cache->Find("small"), "");
}

TEST_F(CompileCacheTest, AbandonedFilesAreRemovedAndOthersStay) {
  const auto cache = Open();
  const fs::path old = folder_ + "/cache/a.temporary", fresh = folder_ + "/cache/b.temporary";
  const fs::path foreign = folder_ + "/cache/README";
  for (const fs::path& path : {old, fresh, foreign}) Write(path, "x");
  for (const fs::path& path : {old, foreign})
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(cache->Insert("k", "v").ok());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(foreign));
}

TEST_F(CompileCacheTest, FoldersThatCannotBeUsedAreRefused) {
  Write(folder_ + "/file", "x");
  absl::StatusOr<std::shared_ptr<CompileCache>> cache = CompileCache::Open(folder_ + "/file", kNoLimit);
  EXPECT_EQ(cache.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cache.status().message()), HasSubstr("/file: is no folder"));
  cache = CompileCache::Open(folder_ + "/file/below", kNoLimit);
  EXPECT_EQ(cache.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(cache.status().message()), HasSubstr("/file/below: cannot be created"));
  EXPECT_TRUE(CompileCache::Open(folder_ + "/a/b/c", kNoLimit).ok());
}

TEST_F(CompileCacheTest, InsertingReportsAFolderThatHasGone) {
  const auto cache = Open();
  fs::remove_all(folder_ + "/cache");
  EXPECT_FALSE(cache->Insert("k", "v").ok());
  EXPECT_EQ(cache->Find("k"), std::nullopt);
}

// Processes insert, find and remove entries of one small folder. Whatever one of them finds is what belongs to the key.
TEST_F(CompileCacheTest, ManyProcessesShareAFolder) {
  constexpr int kProcesses = 4, kRounds = 400, kKeys = 12;
  const auto bytes_of = [](int key, int round) {
    return absl::StrCat(key, ":",
                        std::string(static_cast<size_t>(500 + 100 * key), static_cast<char>('a' + round % 26)));
  };
  Open();
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      absl::StatusOr<std::shared_ptr<CompileCache>> cache = CompileCache::Open(folder_ + "/cache", 6000);
      if (!cache.ok()) _exit(2);
      std::minstd_rand random(static_cast<unsigned>(p + 1));
      int found = 0;
      for (int round = 0; round < kRounds; ++round) {
        const int key = static_cast<int>(random() % kKeys);
        const std::string name = absl::StrCat("key", key);
        if (random() % 2 == 0) {
          if (!(*cache)->Insert(name, bytes_of(key, round)).ok()) _exit(3);
        } else if (const std::optional<std::string> bytes = (*cache)->Find(name)) {
          ++found;
          if (bytes->size() < 3 || *bytes != bytes_of(key, bytes->back() - 'a')) _exit(4);
        }
      }
      _exit(found > 0 ? 0 : 5);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  int64_t sum = 0;
  for (const fs::path& path : Files()) {
    EXPECT_EQ(path.extension(), ".executable");
    sum += static_cast<int64_t>(fs::file_size(path));
  }
  EXPECT_LE(sum, 6000 + kProcesses * 2000) << "of entries that were inserted at the same time";
}

}  // namespace
}  // namespace backplane
