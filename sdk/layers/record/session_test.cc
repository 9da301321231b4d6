// Tests the session file: what is written is read back, and invalid files are refused.
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include "base/wire.h"
#include "gtest/gtest.h"
#include "sdk/host/test_macros.h"
#include "sdk/layers/record/replayer.h"
#include "sdk/layers/record/session_file.h"
#include "sdk/layers/record/slice.h"

namespace backplane::record {
namespace {

std::string Temporary(const std::string& name) {
  return testing::TempDir() + "session_" + std::to_string(getpid()) + name;
}
std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
void WriteAll(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(Sha256Test, PublishedVectors) {
  EXPECT_EQ(FormatHex(Sha256::Of({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(FormatHex(Sha256::Of(Bytes("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(FormatHex(Sha256::Of(Bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(FormatHex(Sha256::Of(Bytes(std::string(1000000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesAndBothLoopsAgree) {
  std::mt19937 random(1);
  std::string text(5000, '\0');
  for (char& c : text) c = static_cast<char>(random());
  const Digest all = Sha256::Of(Bytes(text));
  for (int round = 0; round < 50; ++round) {
    Sha256 sha;
    for (size_t at = 0; at < text.size();) {
      const size_t take = std::min<size_t>(random() % 200, text.size() - at);
      sha.Update(Bytes(text).subspan(at, take));
      at += take;
    }
    EXPECT_EQ(sha.Finish(), all);
  }
  if (!internal::HaveShaInstructions()) GTEST_SKIP() << "this processor has no SHA instructions";
  uint32_t a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto* data = reinterpret_cast<const uint8_t*>(text.data());
  internal::Sha256BlocksPortable(a, data, 70);
  internal::Sha256BlocksAccelerated(b, data, 70);
  EXPECT_EQ(std::memcmp(a, b, sizeof(a)), 0);
}

// Returns an operation with all fields set.
Operation Full() {
  Operation op;
  op.kind = Kind::kExecute;
  op.number = 7;
  op.thread = 3;
  op.start_ns = 123456789;
  op.duration_ns = 42;
  op.code = 13;
  op.message = "it broke";
  op.uses = {1, 0, 99};
  op.makes = {100, 101};
  op.numbers = {-1, INT64_MAX, INT64_MIN, 0};
  op.name = "jit_step";
  op.text = "here:1";
  op.type = PJRT_Buffer_Type_BF16;
  op.dims = {2, 0, 5};
  op.byte_strides = {-4, 8, 2};
  op.layout.emplace();
  op.layout->minor_to_major = {1, 0, 2};
  op.layout->tiles = {{8, 128}, {2}};
  op.blobs = {{Sha256::Of(Bytes("x")), 1}, {Sha256::Of({}), 0}};
  op.data_left_out = true;
  op.options = {
      {"text", "a"}, {"all", int64_t{-3}}, {"list", std::vector<int64_t>{1, -2}}, {"real", 0.5f}, {"truth", true}};
  op.attributes = {{"version", int64_t{9}}};
  op.device = 4;
  op.memory = 0;
  op.shapes = {{PJRT_Buffer_Type_F32, {1, 2}}, {PJRT_Buffer_Type_PRED, {}}};
  op.layouts = {std::nullopt, host::BufferLayout{PJRT_Buffer_MemoryLayout_Type_Strides, {}, {}, {4, -8}}};
  op.placement = {0, 1};
  op.non_donatable = {2};
  op.donated = {0, 5};
  op.devices = {{3, 1, 2, true, "cpu", {0, 1}, 1}};
  op.memories = {{1, "device"}};
  op.obstacle = "a callback";
  return op;
}

TEST(OperationTest, RoundTripOfEveryField) {
  const Operation op = Full();
  const std::string bytes = EncodeOperation(op);
  ASSERT_OK_AND_ASSIGN(const Operation back, DecodeOperation(bytes));
  EXPECT_EQ(EncodeOperation(back), bytes);
  EXPECT_EQ(back.uses, op.uses);
  EXPECT_EQ(back.numbers, op.numbers);
  EXPECT_EQ(back.byte_strides, op.byte_strides);
  EXPECT_EQ(back.layout->tiles, op.layout->tiles);
  EXPECT_EQ(back.blobs, op.blobs);
  EXPECT_EQ(back.options[2].FormatValue(), "[1, -2]");
  EXPECT_EQ(back.options[3].FormatValue(), op.options[3].FormatValue());
  EXPECT_EQ(back.options[4].FormatValue(), "true");
  EXPECT_FALSE(back.layouts[0].has_value());
  EXPECT_EQ(back.layouts[1]->byte_strides, (std::vector<int64_t>{4, -8}));
  EXPECT_EQ(back.devices[0].memories, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(back.memories[0].kind, "device");
  EXPECT_EQ(back.obstacle, "a callback");
  // Each prefix is an error or another operation, and needs no more memory than that.
  for (size_t n = 0; n < bytes.size(); ++n) DecodeOperation(absl::string_view(bytes).substr(0, n)).IgnoreError();
}

TEST(OperationTest, KindsOfLaterVersionsAreRefused) {
  WireWriter w;
  w.Varint(1, kLastKind + 1);
  EXPECT_EQ(DecodeOperation(w.Take()).status().code(), absl::StatusCode::kInvalidArgument);
}

// Writes a file with blobs of all forms and 20 operations.
std::string MakeFile(const std::string& path) {
  SessionWriter::Settings settings;
  auto writer = *SessionWriter::Create(path, settings);
  SessionInfo info;
  info.plugin = "plugin.so";
  info.api_minor = 114;
  writer->Describe(info);
  std::mt19937 random(2);
  std::string noise(10 << 20, '\0');  // three pieces that cannot be compressed
  for (size_t i = 0; i < noise.size(); i += 4) {
    const uint32_t word = random();
    std::memcpy(noise.data() + i, &word, 4);
  }
  for (int i = 0; i < 20; ++i) {
    Operation op = Full();
    op.number = 0;
    op.code = 0;
    op.blobs = {writer->AddBlob(absl::string_view(i % 2 == 0 ? std::string(1000 + i / 4, 'z') : "small"))};
    if (i == 5 || i == 6) op.blobs.push_back(writer->AddBlob(absl::string_view(noise)));
    if (i == 7) op.blobs.push_back(writer->AddBlob(""));
    writer->Add(op);
  }
  writer->Finish();
  EXPECT_TRUE(writer->status().ok());
  return ReadAll(path);
}

TEST(SessionFileTest, RoundTripWithBlobsOnce) {
  const std::string path = Temporary("round.bprec");
  MakeFile(path);
  ASSERT_OK_AND_ASSIGN(const auto reader, SessionReader::Open(path));
  EXPECT_TRUE(reader->complete());
  EXPECT_EQ(reader->info().plugin, "plugin.so");
  ASSERT_EQ(reader->size(), 20u);
  EXPECT_EQ(reader->num_blobs(), 8u);  // five of z, small, noise, nothing
  // The noise is stored once, although two operations refer to it.
  EXPECT_LT(reader->file_bytes(), uint64_t{11} << 20);
  for (size_t i = 0; i < reader->size(); ++i) {
    ASSERT_OK_AND_ASSIGN(const Operation op, reader->At(i));
    EXPECT_EQ(op.number, i + 1);
    for (const BlobRef& blob : op.blobs) {
      ASSERT_OK_AND_ASSIGN(const std::string bytes, reader->ReadBlob(blob));
      EXPECT_EQ(bytes.size(), blob.size);
      EXPECT_EQ(Sha256::Of(Bytes(bytes)), blob.digest);
    }
  }
  EXPECT_EQ(reader->ReadBlob((*reader->At(5)).blobs[1], 1000).status().code(), absl::StatusCode::kResourceExhausted);
  unlink(path.c_str());
}

TEST(SessionFileTest, StridesAreGathered) {
  // 5 x 3 elements of two bytes, rows in reverse order, with gaps between columns.
  std::vector<uint16_t> memory(5 * 6);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint16_t>(i);
  StridedSource source(&memory[4 * 6], 2, {5, 3}, {-12, 4});
  const auto piece = source.Next();
  ASSERT_EQ(piece.size(), 30u);
  for (size_t r = 0; r < 5; ++r) {
    for (size_t c = 0; c < 3; ++c) {
      uint16_t value;
      std::memcpy(&value, piece.data() + 2 * (3 * r + c), 2);
      EXPECT_EQ(value, memory[(4 - r) * 6 + 2 * c]);
    }
  }
  EXPECT_TRUE(source.Next().empty());
  ASSERT_OK_AND_ASSIGN(const HostExtent extent, ComputeExtentOfStrides(PJRT_Buffer_Type_U16, {5, 3}, {-12, 4}));
  EXPECT_EQ(extent.below, 48);
  EXPECT_EQ(extent.size, 48u + 8 + 2);
  EXPECT_FALSE(ComputeExtentOfStrides(PJRT_Buffer_Type_U16, {5, 3}, {INT64_MAX, 4}).ok());
  EXPECT_FALSE(ComputeExtentOfStrides(PJRT_Buffer_Type_U16, {5, 3}, {4}).ok());
}

TEST(SessionFileTest, AFileCutAnywhereGivesWhatIsWhole) {
  const std::string path = Temporary("cut.bprec");
  const std::string bytes = MakeFile(path);
  std::mt19937 random(3);
  size_t last_size = 0;
  for (int round = 0; round < 60; ++round) {
    const size_t n = round < 40 ? bytes.size() * static_cast<size_t>(round) / 40 + random() % 50 : random() % 3000;
    WriteAll(path, bytes.substr(0, n));
    const auto reader = SessionReader::Open(path);
    if (!reader.ok()) {
      EXPECT_LT(n, 200u) << reader.status();  // before the description
      continue;
    }
    EXPECT_FALSE((*reader)->complete());
    if (round < 40) {
      EXPECT_GE((*reader)->size(), last_size);
      last_size = (*reader)->size();
    }
  }
  WriteAll(path, bytes.substr(0, bytes.size() - 1));
  ASSERT_OK_AND_ASSIGN(const auto reader, SessionReader::Open(path));
  EXPECT_EQ(reader->size(), 20u);
  EXPECT_EQ(reader->lost_bytes(), 23u);
  unlink(path.c_str());
}

// Calls all functions of the reader.
void Use(const std::string& path, int* opened, int* refused) {
  const auto reader = SessionReader::Open(path);
  if (!reader.ok()) {
    ++*refused;
    EXPECT_FALSE(reader.status().message().empty());
    return;
  }
  ++*opened;
  for (size_t i = 0; i < (*reader)->size(); ++i) {
    const auto op = (*reader)->At(i);
    if (!op.ok()) continue;
    for (const BlobRef& blob : op->blobs) (*reader)->ReadBlob(blob, uint64_t{1} << 26).IgnoreError();
  }
  if (const auto links = CollectLinks(**reader); links.ok() && !links->empty())
    CollectDependencies(*links, links->size() - 1);
}

TEST(SessionFileTest, ThousandRandomMutations) {
  const std::string path = Temporary("mutated.bprec");
  auto writer = *SessionWriter::Create(path, {});
  writer->Describe({});
  for (int i = 0; i < 6; ++i) {
    Operation op = Full();
    op.number = 0;
    op.blobs = {writer->AddBlob(absl::string_view(std::string(300 + i, static_cast<char>('a' + i))))};
    writer->Add(op);
  }
  writer->Finish();
  const std::string good = ReadAll(path);
  std::mt19937 random(4);
  int opened = 0, refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bad = good;
    for (uint32_t n = 1 + random() % 4; n > 0; --n) {
      const size_t at = random() % bad.size();
      switch (random() % 4) {
        case 0:
          bad[at] = static_cast<char>(random());
          break;
        case 1:
          bad[at] = static_cast<char>(bad[at] ^ 1 << random() % 8);
          break;
        case 2:
          bad.insert(at, std::string(random() % 9, static_cast<char>(random())));
          break;
        default:
          bad.erase(at, random() % 9);
      }
      if (bad.empty()) bad = "x";
    }
    WriteAll(path, bad);
    Use(path, &opened, &refused);
  }
  // Checksums detect all changes, except in the bytes of blobs, which their digest detects, and truncated ends.
  EXPECT_GT(refused, 600);
  unlink(path.c_str());
}

TEST(SessionFileTest, ThousandMutationsBehindTheChecksum) {
  // The same within the frames, with valid checksums, so that the contents are checked as well.
  const std::string path = Temporary("forged.bprec");
  const std::string frames[3] = {EncodeInfo({}), EncodeOperation(Full()), std::string()};
  std::mt19937 random(5);
  int opened = 0, refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string file(
        "\x89"
        "BPREC\r\n\x01\0\0\0\0\0\0\0",
        16);
    auto add = [&](const char* kind, std::string payload, bool mutate) {
      for (uint32_t n = random() % 4; mutate && n > 0 && !payload.empty(); --n)
        payload[random() % payload.size()] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
      const uint64_t size = payload.size();
      uLong crc = crc32(0, reinterpret_cast<const Bytef*>(kind), 4);
      crc = crc32(crc, reinterpret_cast<const Bytef*>(&size), 8);
      crc = crc32_z(crc, reinterpret_cast<const Bytef*>(payload.data()), payload.size());
      const auto crc32_bits = static_cast<uint32_t>(crc);
      file.append(kind, 4);
      file.append(reinterpret_cast<const char*>(&crc32_bits), 4);
      file.append(reinterpret_cast<const char*>(&size), 8);
      file += payload;
    };
    add("INFO", frames[0], random() % 8 == 0);
    // A piece: digest, size, offset, bytes, codec, data.
    const std::string text = "some data";
    const Digest digest = Sha256::Of(Bytes(text));
    std::string piece(reinterpret_cast<const char*>(digest.data()), 32);
    const uint64_t numbers[2] = {text.size(), 0};
    const uint32_t more[2] = {static_cast<uint32_t>(text.size()), 0};
    piece.append(reinterpret_cast<const char*>(numbers), 16);
    piece.append(reinterpret_cast<const char*>(more), 8);
    add("BLOB", piece + text, random() % 2 == 0);
    Operation op = Full();
    op.blobs = {{digest, text.size()}};
    add("OPER", EncodeOperation(op), true);
    WriteAll(path, file);
    Use(path, &opened, &refused);
  }
  EXPECT_GT(opened, 100);
  EXPECT_GT(refused, 100);
  unlink(path.c_str());
}

TEST(SessionFileTest, AbsurdSizesTakeNoMemory) {
  const std::string path = Temporary("absurd.bprec");
  std::string file = MakeFile(path).substr(0, 16);
  const uint64_t huge = uint64_t{1} << 60;
  file += "OPER" + std::string(4, '\0') + std::string(reinterpret_cast<const char*>(&huge), 8);
  WriteAll(path, file);
  const auto reader = SessionReader::Open(path);
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(reader.status().message().find("at most"), absl::string_view::npos) << reader.status();
  WriteAll(path, "no session at all, but long enough");
  EXPECT_EQ(SessionReader::Open(path).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SessionReader::Open(path + ".not_there").status().code(), absl::StatusCode::kNotFound);
  unlink(path.c_str());
}

TEST(SessionFileTest, TheLimitIsSaidInTheFile) {
  const std::string path = Temporary("limit.bprec");
  SessionWriter::Settings settings;
  settings.size_limit = 4096;
  {
    auto writer = *SessionWriter::Create(path, settings);
    writer->Describe({});
    // Creating the same file twice at the same time is refused.
    EXPECT_EQ(SessionWriter::Create(path, settings).status().code(), absl::StatusCode::kAlreadyExists);
    for (int i = 0; i < 100; ++i) {
      Operation op = Full();
      op.number = 0;
      writer->Add(op);
    }
    EXPECT_EQ(writer->status().code(), absl::StatusCode::kResourceExhausted);
  }
  ASSERT_OK_AND_ASSIGN(const auto reader, SessionReader::Open(path));
  ASSERT_GT(reader->size(), 2u);
  EXPECT_LT(reader->file_bytes(), 4096u + 256);
  ASSERT_OK_AND_ASSIGN(const Operation last, reader->At(reader->size() - 1));
  EXPECT_EQ(last.kind, Kind::kObstacle);
  EXPECT_NE(last.obstacle.find("4096"), std::string::npos);
  unlink(path.c_str());
}

TEST(SliceTest, WhatATargetNeeds) {
  // 0 client, 1 compile, 2 from host, 3 another, 4 execute(2), 5 destroy, 6 transfer, 7 fills it, 8 retrieve, 9
  // execute(4, 8)
  const std::vector<Link> links = {{1, Kind::kClient, {}, {1}},
                                   {2, Kind::kCompile, {1}, {2}},
                                   {3, Kind::kFromHost, {1}, {3, 4}},
                                   {4, Kind::kFromHost, {1}, {5, 6}},
                                   {5, Kind::kExecute, {2, 3}, {7}},
                                   {6, Kind::kDestroy, {5}, {}},
                                   {7, Kind::kTransferStart, {1}, {8}},
                                   {8, Kind::kTransferData, {8}, {9}},
                                   {9, Kind::kTransferRetrieve, {8}, {10}},
                                   {10, Kind::kExecute, {2, 7, 10}, {11}},
                                   {11, Kind::kRead, {11}, {12}},
                                   {12, Kind::kWait, {12}, {}}};
  EXPECT_EQ(CollectDependencies(links, 4), (Selection{0, 1, 2, 4}));
  EXPECT_EQ(CollectDependencies(links, 11), (Selection{0, 1, 2, 4, 6, 7, 8, 9, 10, 11}));
  Selection all;
  for (size_t i = 0; i < links.size(); ++i) all.insert(i);
  EXPECT_EQ(RemoveOperations(links, all, {4}), (Selection{0, 1, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(RemoveOperations(links, all, {0}), Selection{});
}

TEST(DevicesTest, OfCompileOptionsAreChanged) {
  // executable_build_options { device_ordinal: 1, num_replicas(4): 2, device_assignment { 2 replicas of 1, ids 0 1 } }
  WireWriter row, assignment, build, options;
  WireWriter ids;
  ids.Raw(0);
  ids.Raw(1);
  row.Bytes(1, ids.Take());
  assignment.Varint(1, 2);
  assignment.Varint(2, 1);
  assignment.Bytes(3, row.Take());
  build.Varint(1, 1);
  build.Varint(4, 2);
  build.Bytes(9, assignment.Take());
  options.Varint(4, 7);
  options.Bytes(3, build.Take());
  const std::string bytes = options.Take();
  ASSERT_OK_AND_ASSIGN(const std::string same, ReplaceDevices(bytes, {{0, 0}, {1, 1}}));
  EXPECT_EQ(same, bytes);
  ASSERT_OK_AND_ASSIGN(const std::string other, ReplaceDevices(bytes, {{0, 8}, {1, 9}}));
  ASSERT_EQ(other.size(), bytes.size());
  std::string expected = bytes;
  expected[5] = 9;                    // device_ordinal
  expected[expected.size() - 2] = 8;  // the row
  expected[expected.size() - 1] = 9;
  EXPECT_EQ(other, expected);
  EXPECT_EQ(ReplaceDevices(bytes, {{0, 8}}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(ReplaceDevices("\x1a\x7f", {}).ok());
}

}  // namespace
}  // namespace backplane::record
