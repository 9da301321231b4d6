#include "tests/mutation/recordings.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "sdk/host/loader.h"
#include "sdk/layers/record/replayer.h"
#include "sdk/layers/record/session_file.h"
#include "tests/mutation/mutate.h"
#include "tests/sequences/actor.h"
#include "tests/sequences/sequence.h"
#include "tests/supervisor/supervisor.h"

namespace backplane::mutation {
namespace {

constexpr size_t kFileHead = 16, kFrameHead = 16;

std::string WithRightChecksums(absl::string_view bytes) {
  std::string file(bytes);
  for (size_t at = kFileHead; at + kFrameHead <= file.size();) {
    uint64_t size = 0;
    std::memcpy(&size, &file[at + 8], 8);
    if (size > file.size() - at - kFrameHead) break;
    uLong sum = crc32(0, reinterpret_cast<const Bytef*>(&file[at]), 4);
    sum = crc32(sum, reinterpret_cast<const Bytef*>(&file[at + 8]), 8);
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(&file[at + kFrameHead]), size);
    const auto sum32 = static_cast<uint32_t>(sum);
    std::memcpy(&file[at + 4], &sum32, 4);
    at += kFrameHead + size;
  }
  return file;
}

std::vector<std::string> FramesOf(const std::string& file) {
  std::vector<std::string> frames;
  for (size_t at = kFileHead; at + kFrameHead <= file.size();) {
    uint64_t size = 0;
    std::memcpy(&size, &file[at + 8], 8);
    if (size > file.size() - at - kFrameHead) break;
    frames.push_back(file.substr(at, kFrameHead + size));
    at += kFrameHead + size;
  }
  return frames;
}

std::string FrameOf(const record::Operation& operation) {
  const std::string payload = record::EncodeOperation(operation);
  std::string frame = "OPER";
  frame.resize(kFrameHead);
  const uint64_t size = payload.size();
  std::memcpy(&frame[8], &size, 8);
  return frame + payload;
}

template <typename T>
void ChangeNumber(sequences::Random& random, T& number) {
  static const std::vector<int64_t>& limits = *new std::vector<int64_t>{0,
                                                                        1,
                                                                        -1,
                                                                        2,
                                                                        7,
                                                                        255,
                                                                        1 << 20,
                                                                        int64_t{1} << 31,
                                                                        int64_t{1} << 40,
                                                                        std::numeric_limits<int64_t>::max(),
                                                                        std::numeric_limits<int64_t>::min()};
  number = random.OneIn(2) ? static_cast<T>(random.Pick(limits)) : static_cast<T>(number + (random.OneIn(2) ? 1 : -1));
}

template <typename T>
void ChangeList(sequences::Random& random, std::vector<T>& list) {
  if (list.empty() || random.OneIn(6)) {
    list.push_back(T{});
  } else if (random.OneIn(6)) {
    list.erase(list.begin() + static_cast<ptrdiff_t>(random.Below(list.size())));
  } else if (random.OneIn(6)) {
    std::swap(list[random.Below(list.size())], list[random.Below(list.size())]);
  } else {
    ChangeNumber(random, list[random.Below(list.size())]);
  }
}

void ChangeOperation(sequences::Random& random, record::Operation& o) {
  switch (random.Below(16)) {
    case 0:
      o.kind = static_cast<record::Kind>(1 + random.Below(record::kLastKind));
      break;
    case 1:
    case 2:
      ChangeList(random, o.uses);
      break;
    case 3:
      ChangeList(random, o.makes);
      break;
    case 4:
    case 5:
    case 6:
      ChangeList(random, o.numbers);
      break;
    case 7:
    case 8:
      ChangeList(random, o.dims);
      break;
    case 9:
      ChangeList(random, o.byte_strides);
      break;
    case 10:
      o.type = static_cast<PJRT_Buffer_Type>(random.Below(40));
      break;
    case 11:
      ChangeNumber(random, o.device);
      ChangeNumber(random, o.memory);
      break;
    case 12:
      ChangeNumber(random, o.code);
      break;
    case 13:
      if (!o.blobs.empty()) ChangeNumber(random, o.blobs[random.Below(o.blobs.size())].size);
      if (o.blobs.empty() || random.OneIn(4)) o.blobs.clear();
      break;
    case 14:
      if (!o.shapes.empty()) ChangeList(random, o.shapes[random.Below(o.shapes.size())].dims);
      ChangeList(random, random.OneIn(2) ? o.non_donatable : o.donated);
      break;
    default:
      o.layout.emplace();
      ChangeList(random, o.layout->minor_to_major);
  }
}

}  // namespace

absl::Status WithRecordingFile(absl::string_view bytes, const std::function<absl::Status(const std::string&)>& use) {
  const int file = memfd_create("recording", MFD_CLOEXEC);
  if (file < 0) return absl::InternalError("no memory file");
  const std::string path = absl::StrCat("/proc/self/fd/", file), content = WithRightChecksums(bytes);
  absl::Status status = absl::InternalError("cannot write");
  if (write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size())) status = use(path);
  close(file);
  return status;
}

std::string MutateRecording(const std::vector<std::string>& seeds, uint64_t seed) {
  sequences::Random random(seed);
  if (random.OneIn(3)) return Mutate(seeds, false, seed);
  const std::string& whole = random.Pick(seeds);
  std::vector<std::string> frames = FramesOf(whole);
  std::vector<size_t> operations;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].compare(0, 4, "OPER") == 0) operations.push_back(i);
  }
  for (size_t changes = 1 + random.Below(4); changes > 0 && !operations.empty(); --changes) {
    std::string& frame = frames[random.Pick(operations)];
    if (random.OneIn(6)) {
      std::swap(frame, frames[random.Pick(operations)]);
      continue;
    }
    if (random.OneIn(8)) {
      frame = frames[random.Pick(operations)];  // duplicates one operation and drops another
      continue;
    }
    absl::StatusOr<record::Operation> operation = record::DecodeOperation(absl::string_view(frame).substr(kFrameHead));
    if (!operation.ok()) continue;
    ChangeOperation(random, *operation);
    frame = FrameOf(*operation);
  }
  std::string file = whole.substr(0, kFileHead);
  for (const std::string& frame : frames) file += frame;
  return WithRightChecksums(file);
}

absl::Status ReplayRecording(absl::string_view bytes, const std::string& path) {
  static const absl::StatusOr<const host::Plugin*>& plugin =
      *new absl::StatusOr<const host::Plugin*>(host::Plugin::Load(path));
  if (!plugin.ok()) {
    std::fprintf(stderr, "%s\n", plugin.status().ToString().c_str());
    std::abort();
  }
  return WithRecordingFile(bytes, [](const std::string& file) -> absl::Status {
    absl::StatusOr<std::unique_ptr<record::SessionReader>> session = record::SessionReader::Open(file);
    if (!session.ok()) return session.status();
    record::ReplayOptions options;
    options.promise_patience_ms = 100;
    record::Replayer replayer(**session, **plugin, options);
    for (size_t i = 0; i < (*session)->size(); ++i) {
      absl::StatusOr<record::Operation> operation = (*session)->At(i);
      if (!operation.ok()) return operation.status();
      replayer.Step(*operation).status.IgnoreError();
    }
    return absl::OkStatus();
  });
}

std::vector<std::string> RecordedSeeds(const std::string& plugin) {
  constexpr uint64_t kSessions = 24;
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string stem = absl::StrCat("recorded_seed_", getpid(), "_");
  supervisor::Job job;
  job.count = kSessions;
  job.one = [&](uint64_t number, supervisor::Shared& shared) -> std::string {
    sequences::Settings settings;
    settings.plugin = plugin;
    settings.record_to = (folder / absl::StrCat(stem, number)).string();
    return sequences::RunSequence(settings, number, shared);
  };
  job.found = [](const supervisor::Finding& f) {
    std::printf("recording the session of sequence %llu: %s\n", static_cast<unsigned long long>(f.index),
                f.how.c_str());
  };
  supervisor::RunJob(job);
  std::vector<std::string> seeds;
  for (uint64_t i = 0; i < kSessions; ++i) {
    const std::filesystem::path path = folder / absl::StrCat(stem, i);
    std::ifstream in(path, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    if (!bytes.empty() && bytes.size() < (size_t{1} << 19)) seeds.push_back(std::move(bytes));
    std::filesystem::remove(path);
  }
  return seeds;
}

}  // namespace backplane::mutation
